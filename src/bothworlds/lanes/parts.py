"""Compilation in parts: functions that only compiled code calls become LLVM code and no more.

Numba optimises a function, and writes machine code of it, before another one can call it; the
caller, into which it is copied, is optimised again, and so on up to what Python calls.  Here only
that last one is: a part is kept as it was lowered, to be linked.

What is compiled is the same function of IEEE arithmetic either way.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc
from numba.core import typed_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment

from bothworlds.lanes.shortened import Lowering, Shortened

ENVIRONMENT = "_ZN08NumbaEnv"
"""Prefix of LLVM's names of the environments of functions."""


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of a function and of those it calls, for linking."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        # As Numba has it, but without a copy: nothing else uses this module.
        for each in self._final_module.functions:
            if not each.is_declaration and each.linkage == llvm.Linkage.external:
                each.linkage = "linkonce_odr"
        return self._final_module


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """The machine code of a function with its parts, optimised once.

    Numba optimises everything twice, to drop counts of references that kernels do not have.
    """

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Lowering to LLVM code alone."""

    _name = "part_lowering"
    lowering_class = Lowering

    def run_pass(self, state: Any) -> bool:
        """Lower, and let compiled code know where the part is."""
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, library = state["cr"], state.library
        library._ensure_finalized()
        entry = _stand_in(lowered.fndesc, lowered.env, library)
        state.targetctx.insert_user_function(entry, lowered.fndesc, [library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class WholeLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Lowering to machine code, with the parts."""

    _name = "whole_lowering"
    lowering_class = Lowering

    def run_pass(self, state: Any) -> bool:
        """Lower, and give the parts their environments, which Numba does when one is finished."""
        state.library = Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        super().run_pass(state)
        codegen = state.library.codegen
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)
        return True


class PartCompiler(Shortened):
    """Compiler of functions that only compiled code calls."""

    lowering = PartLowering


class WholeCompiler(Shortened):
    """Compiler of functions that Python calls."""

    lowering = WholeLowering


def reduced(made: Any) -> tuple[Any, ...]:
    """Return the form in which a compiled part is kept on disk."""
    made.fndesc.typemap = made.fndesc.calltypes = None
    code = made.library._final_module.as_bitcode()
    return made.library.name, code, made.fndesc, made.environment, made.signature, made.reload_init


def rebuilt(
    context: Any, name: str, code: bytes, fndesc: Any, env: Any, signature: Any, reload_init: Any
) -> Any:
    """Return the part of which `reduced` was kept."""
    for each in reload_init:
        each()
    library = Part(context.codegen(), name)
    library._final_module = llvm.parse_bitcode(code)
    library._finalize_final_module()
    return CompileResult(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=_stand_in(fndesc, env, library),
        typing_error=None,
        type_annotation=None,
        signature=signature,
        objectmode=False,
        lifted=(),
        fndesc=fndesc,
        library=library,
        call_helper=None,
        environment=env,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=(),
    )


def _stand_in(fndesc: Any, env: Any, library: Any) -> Any:
    """Return the object by which Numba knows a function; Python cannot call it."""
    name = fndesc.qualname.split(".")[-1]
    return _dynfunc.make_function(fndesc.lookup_module(), name, "a part", 0, env, (library,))
