"""Numba's compiler without the steps that the kernels of this package do not need.

About half of the time that a kernel takes to compile is Python's: Numba works out types, rewrites
and checks.  Here it works out the type of an operator once, not wherever the operator stands; it
does not compile what is done where an argument is None and that one is not; and passes that concern
what no kernel has (closures, array expressions, threads) are left out, as are the sizes that only a
debugger needs.

What is compiled is the same function of IEEE arithmetic either way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite.binding import ffi
from numba.core import cgutils, errors, ir, lowering, typed_passes, types, untyped_passes
from numba.core.analysis import dead_branch_prune
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typing.templates import _IntrinsicTemplate

from bothworlds.lanes.types import LANES, is_wide

CACHE_LINE = 64

UNNEEDED = (
    untyped_passes.IRProcessing,
    untyped_passes.WithLifting,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.InlineClosureLikes,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
    typed_passes.AnnotateTypes,
    typed_passes.DumpParforDiagnostics,
)
"""Passes without which the kernels of this package compile to the same code."""


class _NotNone:
    """The type of an argument, as Numba describes that of a number it knows."""

    def __init__(self, kind: Any) -> None:
        self.literal_type = kind


@register_pass(mutates_CFG=True, analysis_only=False)
class NonePrune(untyped_passes.DeadBranchPrune):  # type: ignore[misc]
    """Leaves out the branches for arguments that are None, or that are not.

    Numba leaves out the second only, and compiles the functions that the first calls.
    """

    _name = "none_prune"

    def run_pass(self, state: Any) -> bool:
        """Remove the branches."""
        maybe = types.NoneType, types.Omitted, types.Optional
        known = [each if isinstance(each, maybe) else _NotNone(each) for each in state.args]
        dead_branch_prune(state.func_ir, known)
        return True

    def get_analysis_usage(self, usage: Any) -> None:
        """Need nothing of other passes."""


_KNOWN: dict[Any, dict[Any, Any]] = {}
"""Signatures of operators and intrinsics, by Numba's context and the types of the arguments."""


class _Remembering:
    """Numba's context for types, which remembers the signatures of operators and intrinsics."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known = _KNOWN.setdefault(context, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, given: Any, named: Any) -> Any:
        """Return the signature of a function for arguments of these types."""
        key = function, given
        if not named and key in self._known:
            return self._known[key]
        found = self._context.resolve_function_type(function, given, named)
        # What Numba compiles for a function depends on its caller; what it implements does not, nor
        # what an intrinsic is.
        if (
            not named
            and found is not None
            and isinstance(function, types.Function)
            and (
                function.get_impl_key(found) is function.key[0]
                or issubclass(function.templates[0], _IntrinsicTemplate)
            )
        ):
            self._known[key] = found
        return found


@register_pass(mutates_CFG=False, analysis_only=False)
class Typing(typed_passes.NopythonTypeInference):  # type: ignore[misc]
    """Type inference with a memory."""

    _name = "typing"

    def run_pass(self, state: Any) -> bool:
        """Find the types of all variables."""
        context = state.typingctx
        state.typingctx = _Remembering(context)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context


class Lowering(lowering.Lower):  # type: ignore[misc]
    """Lowering that does not look up operators twice, and aligns vectors in memory."""

    def setup_function(self, fndesc: Any) -> None:
        """Start a function; one with narrow vectors starts its part of the stack at a cache line.

        LLVM puts vectors there for which no register is left, and does not align them by itself:
        those that straddle two lines take several times as long.  Where a vector is a whole tile,
        there are registers enough, and to align the stack takes longer.
        """
        super().setup_function(fndesc)
        if getattr(self.func_ir.func_id.func, "rare", False):
            self.function.attributes.add("noinline")
            self.function.attributes.add("cold")
        if any(is_wide(kind) and kind.lanes < LANES for kind in fndesc.typemap.values()):
            self.function.attributes.alignstack = CACHE_LINE
            # It is as before; without some other attribute llvmlite writes none.
            self.function.attributes.add("uwtable")

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Reserve memory for a variable, without its size for a debugger."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a variable, also an argument without its size for a debugger."""
        super().storevar(value, name)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Lower an operator: by its signature, which is known, where no operand is."""
        context, builder = self.context, self.builder
        signature = self.fndesc.calltypes[expr]
        function = context.typing_context.resolve_value_type(op)
        static = expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED
        # The operator may have learned of other types since this one's were found.
        if static or signature.args not in getattr(function, "_impl_keys", ()):
            return super().lower_binop(resty, expr, op)
        operands = [
            context.cast(builder, self.loadvar(each.name), self.typeof(each.name), wanted)
            for each, wanted in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        made = context.get_function(function, signature)(builder, operands)
        return context.cast(builder, made, signature.return_type, resty)


class _Still:
    """A context of Numba's that does not look for new declarations."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def refresh(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _untimed_calls() -> Iterator[None]:
    """Keep Numba from timing every call of LLVM, which takes a tenth of the time of compiling."""
    lock: Any = getattr(ffi.lib, "_lock", None)
    timed = getattr(lock, "_cblist", None)
    if timed is not None:
        lock._cblist = []
    try:
        yield
    finally:
        if timed is not None:
            lock._cblist = timed


class _Passes(PassManager):  # type: ignore[misc]
    """A pipeline that takes no notes of every pass: settings, types and times as text.

    Taking them is a tenth of the time that compiling takes.
    """

    def _runPass(self, index: int, each: Any, state: Any) -> None:
        each.analysis = self._analysis
        with errors.new_error_context("Pass {name}", name=each.name()):
            each.run_initialization(state)
            each.run_pass(state)
            each.run_finalizer(state)


class Shortened(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline without the steps that kernels do not need."""

    lowering: Any
    _running = 0

    def __init__(self, typing: Any, target: Any, *rest: Any) -> None:
        if Shortened._running:
            # The function that calls this one has looked.
            super().__init__(_Still(typing), _Still(target), *rest)
            self.state.typingctx = typing
        else:
            super().__init__(typing, target, *rest)

    def _compile_core(self) -> Any:
        # Numba lets one thread compile at a time.
        Shortened._running += 1
        try:
            with _untimed_calls():
                return super()._compile_core()
        finally:
            Shortened._running -= 1

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        instead = {
            untyped_passes.DeadBranchPrune: NonePrune,
            typed_passes.NopythonTypeInference: Typing,
            typed_passes.NativeLowering: self.lowering,
        }
        made = _Passes(usual.pipeline_name)
        made.passes = [
            (instead.get(each, each), about) for each, about in usual.passes if each not in UNNEEDED
        ]
        made.finalize()
        return [made]
