"""Decision service: decisions over HTTP, with an embedded store or PostgreSQL.

Needs the extra ``serve``. `bothworlds.client` is what a program that asks for decisions imports.
"""
