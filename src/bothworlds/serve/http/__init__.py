"""HTTP of the decision service: routes, handlers, ASGI application, fast path and server."""
