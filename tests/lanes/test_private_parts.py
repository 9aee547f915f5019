"""Parts of Numba that its documentation does not promise: four modules use them.

`bothworlds.lanes.parts`, `shortened`, `code_cache` and `native` explain why. A Numba without one of
the first three's parts still runs every kernel: `bothworlds.lanes.jit` then uses Numba's own
compiler, and warns.
"""

import ast
from importlib import import_module
from pathlib import Path

import numba
import pytest

import bothworlds

PACKAGE = Path(bothworlds.__file__).parent
USERS = {"lanes/parts.py", "lanes/shortened.py", "lanes/code_cache.py", "lanes/native.py"}
EXTENDING = {
    "numba", "numba.core.types", "numba.core.cgutils", "numba.core.extending", "numba.core.event",
    "numba.core.imputils", "numba.core.typing.templates", "numba.np.arrayobj", "numba.core.errors",
}  # fmt: skip
"""Modules of Numba for those who extend it, which any module may import."""
PARTS = {
    # lanes/parts.py: functions that only compiled code calls are kept as LLVM code.
    "numba._dynfunc:make_function": "the object by which Numba knows a function",
    "numba.core.codegen:JITCodeLibrary._optimize_functions": "overridden: a part is not optimised",
    "numba.core.codegen:JITCodeLibrary._optimize_final_module": "overridden: optimised once",
    "numba.core.codegen:JITCodeLibrary._finalize_final_module": "overridden: no machine code",
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals": "the rest of finalising",
    "numba.core.codegen:JITCodeLibrary._get_module_for_linking": "overridden: no copy of a part",
    "numba.core.codegen:JITCodeLibrary._ensure_finalized": "a part is complete before it is kept",
    "numba.core.codegen:JITCodeLibrary.enable_object_caching": "machine code is kept on disk",
    "numba.core.codegen:JITCodeLibrary.get_pointer_to_function": "the address of machine code",
    "numba.core.codegen:CPUCodegen._module_pass_manager": "LLVM's passes for the whole",
    "numba.core.codegen:JITCPUCodegen.set_env": "parts get their environments",
    "numba.core.compiler:CompileResult": "a part that was on disk",
    "numba.core.environment:lookup_environment": "finds the environments of parts",
    "numba.core.typed_passes:NativeLowering.run_pass": "extended: lowering to a part or a whole",
    "numba.core.typed_passes:NativeLowering.lowering_class": "replaced by our lowering",
    # lanes/shortened.py: Numba's compiler without what kernels do not need.
    "numba.core.compiler:CompilerBase._compile_core": "extended: one refresh for a whole kernel",
    "numba.core.compiler:DefaultPassBuilder.define_nopython_pipeline": "shortened",
    "numba.core.compiler_machinery:PassManager._runPass": "no notes and checks after every pass",
    "numba.core.compiler_machinery:PassManager.dependency_analysis": "made before the passes run",
    "numba.core.compiler_machinery:register_pass": "our passes",
    "numba.core.analysis:dead_branch_prune": "branches of None are dropped",
    "numba.core.untyped_passes:DeadBranchPrune": "replaced",
    "numba.core.typed_passes:NopythonTypeInference": "extended: types of operators are remembered",
    "numba.core.typing.templates:_IntrinsicTemplate": "types of intrinsics are remembered",
    "numba.core.lowering:Lower.lower_binop": "extended: known signatures are used",
    "numba.core.lowering:Lower.alloca_lltype": "overridden: no sizes for a debugger",
    "numba.core.lowering:Lower.storevar": "extended: no sizes for a debugger",
    "numba.core.untyped_passes:IRProcessing": "left out: later passes do the same",
    "llvmlite.binding.ffi:lib._lock._cblist": "set aside: calls of LLVM are not timed",
    # lanes/code_cache.py: a cache of machine code that never stops a process.
    "numba.core.caching:FunctionCache._load_overload": "code on disk is loaded without a refresh",
    "numba.core.caching:FunctionCache._save_overload": "code is kept if it can be",
    "numba.core.caching:FunctionCache._index_key": "whether there is code on disk",
    "numba.core.caching:CompileResultCacheImpl._locator_classes": "folders that can only be read",
    "numba.core.caching:IndexDataCacheFile._load_index": "extended by a checksum",
    "numba.core.caching:IndexDataCacheFile._load_data": "extended by a checksum",
    "numba.core.caching:IndexDataCacheFile._data_path": "where the checksum is",
    "numba.core.caching:IndexDataCacheFile._open_for_write": "extended by a checksum",
    "numba.core.caching:InTreeCacheLocator.ensure_cache_path": "a folder next to the source",
    "numba.core.caching:UserProvidedCacheLocator.ensure_cache_path": "NUMBA_CACHE_DIR",
    "numba.core.runtime:rtsys.initialize": "what loaded code needs of Numba",
    # lanes/native.py: the processor that Numba compiles for.
    "numba.core.registry:cpu_target.target_context": "the compiler's own settings",
    "numba.core.codegen:JITCPUCodegen.magic_tuple": "triple, name and features of the processor",
}
"""Every part by module and name, and what it is for."""


def lacking(part):
    module, _, names = part.partition(":")
    try:
        found = import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return True
    return False


@pytest.mark.parametrize("part", PARTS)
def test_numba_has_the_part(part):
    assert not lacking(part), f"Numba {numba.__version__} lacks {part}: {PARTS[part]}"


def test_a_missing_part_would_be_found():
    assert lacking("numba.core.codegen:JITCodeLibrary._no_such_part")
    assert lacking("numba.no_such_module:x")


def imported(path):
    """Return the modules of Numba that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.split(".")[0] == "numba"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
            below = {f"{node.module}.{each.name}" for each in node.names}
            whole = node.module == "numba.core" or any(name.startswith("numba._") for name in below)
            found |= below if whole else {node.module}
    return found


def test_other_modules_use_only_what_numba_offers_for_extensions():
    users = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        private = imported(path) - EXTENDING
        if private:
            users[path.relative_to(PACKAGE).as_posix()] = sorted(private)
    assert set(users) == USERS, users
    # Each module that these import has a part in the list.
    named = {part.partition(":")[0] for part in PARTS} | {"numba.core.config", "numba.core.ir"}
    assert set().union(*users.values()) <= named
