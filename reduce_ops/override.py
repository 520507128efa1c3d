"""``override_aten``: a whole model whose sums, means, norms and the like have the bits of this package's operators."""

import operator
import sys
import threading
from types import TracebackType
from typing import Any

import torch

from reduce_ops import _library

_library.load("reduce_ops")

# In a function that is compiled it is a graph break, not half in the graph and half done while that is traced. This is
# torch.compiler.disable but for the import of the compiler, which takes a second.
_outside_of_graphs = torch._disable_dynamo  # type: ignore[attr-defined]

_lock = threading.Lock()
_owner: object = None  # who overrides at the moment: a context, or the switch
_pass_before: Any = None  # what Inductor's hook was


OPERATORS = (
    *("sum", "mean", "nansum", "linalg_vector_norm", "norm", "amax", "amin", "dot", "vdot", "linalg_vecdot"),
    *("var", "std", "var_mean", "std_mean"),
)
"""What can be overridden, by the names that PyTorch has for its operators."""


class override_aten:  # noqa: N801  # named as what it does, like torch.no_grad
    """Context in which ``torch.sum`` is ``reduce.sum``, ``torch.mean`` is ``reduce.mean``, and so on.

    It holds in every thread of the process, forward and backward, with and without dimensions, with ``out=`` too, on
    CPUs and CUDA devices:

    ======================  ================================================================================
    ``operators``           what becomes this package's operator
    ======================  ================================================================================
    ``sum``, ``mean``       ``torch.sum``, ``Tensor.mean``, and all that PyTorch computes by calling them:
                            elementwise losses with ``reduction="sum"`` or ``"mean"`` (such as ``mse_loss``),
                            gradients of broadcasts (biases, scales, ``expand``), ``sum_to_size``
    ``linalg_vector_norm``  ``torch.linalg.vector_norm``, ``torch.norm``, ``Tensor.norm``, and what calls them,
                            such as ``torch.nn.utils.get_total_norm(foreach=False)``. Of an order other than 0, 1,
                            2, inf and -inf the sum is ``reduce.sum``, but the powers are PyTorch's
    ``norm``                ``aten::norm``, which C++ code and PyTorch's own derivatives call
    ``nansum``              ``torch.nansum``
    ``amax``, ``amin``      ``torch.amax``, ``torch.amin``
    ``dot``, ``vdot``       ``torch.dot``, ``torch.vdot``, ``torch.inner`` of two vectors, and gradients of these
    ``linalg_vecdot``       ``torch.linalg.vecdot``
    ``var``, ``std``,       ``torch.var`` and so on
    ``var_mean``,
    ``std_mean``
    ======================  ================================================================================

    Under ``torch.compile``, Inductor hands over what it has of these, also what an operator was decomposed into (the
    sum of a softmax, say), at the price that it is no longer fused with what surrounds it. Norms, ``nansum``,
    dot products and standard deviations it decomposes: there the sums are ours if ``sum`` is overridden (of deviations
    the variances, if ``var`` is), and what is done to each element before, and to the sums afterwards, is Inductor's.
    Results have the same bits on every device, in every run and at any strides, as long as the reduced values have.

    It does **not** cover what other kernels add: matrix products, convolutions and attention (cuBLAS, cuDNN,
    FlashAttention, oneDNN); in eager mode ``cross_entropy``, ``nll_loss`` and the multi-margin losses with
    ``reduction="sum"`` or ``"mean"`` (sum what ``reduction="none"`` gives instead), softmax and norms of
    lists of tensors (``torch._foreach_norm``); ``max`` and ``min``; batch, layer and group normalization, ``cumsum``,
    ``prod``, ``index_add``, ``scatter_add`` and embedding gradients, ``einsum``, sparse and nested tensors, sums across
    processes, and the gradients that are accumulated where a tensor was used more than once. Of those that differ from
    run to run ``torch.use_deterministic_algorithms`` takes care.

    On entering and on leaving, compiled functions are dropped (``torch.compiler.reset``), because nothing in them asks
    whether sums are overridden: enter it once around a training, not once a step. No other thread may be summing at
    these two moments. What is compiled in between has to be compiled by the thread that entered, because PyTorch newer
    than 2.11 keeps Inductor's settings for each thread.

    >>> with override_aten():
    ...     torch.ones(1000).sum()
    tensor(1000.)

    Args:
        operators: Which ones to override, of the names above; all of them if none is named. With ``"sum"`` alone
            ``torch.mean`` is PyTorch's, which on a CPU, unless it is compiled, divides what ``torch.sum`` gives.

    Raises:
        ValueError: There is no such operator.
        RuntimeError: Operators are overridden already, by a context or by ``set_override_aten``; or a context is left
            that is not the one that was entered. In either case the one that was entered stays until it is left.
    """

    @_outside_of_graphs
    def __init__(self, *operators: str) -> None:
        self._operators = _checked(operators, "override_aten")

    @_outside_of_graphs
    def __enter__(self) -> "override_aten":
        _begin(self, self._operators)
        return self

    @_outside_of_graphs
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _end(self)


@_outside_of_graphs
def set_override_aten(enabled: bool, *operators: str) -> None:
    """Switch on, or off again, for the rest of the process, what `override_aten` does for a block.

    Args:
        enabled: Whether to switch on.
        operators: Which ones to override, as for `override_aten`. Switching off takes all of them back.

    Raises:
        ValueError: There is no such operator, or operators are named to be switched off.
        RuntimeError: It is on already, or on through a context, or not on.
    """
    if enabled:
        _begin(set_override_aten, _checked(operators, "set_override_aten"))
    elif operators:
        raise ValueError("set_override_aten: operators are named; accepted are none, since all are switched off")
    else:
        _end(set_override_aten)


def _checked(operators: tuple[str, ...], caller: str) -> tuple[str, ...]:
    for name in operators:
        if name not in OPERATORS:
            raise ValueError(f"{caller}: operators has {name!r}; accepted are {', '.join(map(repr, OPERATORS))}")
    return tuple(dict.fromkeys(operators)) or OPERATORS


def _begin(owner: object, operators: tuple[str, ...]) -> None:
    global _owner, _pass_before
    with _lock:
        if _owner is not None:
            raise RuntimeError("override_aten: operators are overridden already; leave that context, or switch it off")
        from torch._inductor import config

        _pass_before = config.post_grad_custom_pre_pass
        inductor_pass = _inductor_pass(_pass_before, operators)
        torch.ops.reduce._override_aten(operators)
        _owner = owner
        try:
            config.post_grad_custom_pre_pass = inductor_pass
            _drop_compiled_functions()
        except BaseException:  # an interrupt: nobody would leave what nobody entered
            _restore()
            raise


def _end(owner: object) -> None:
    with _lock:
        if _owner is not owner:
            raise RuntimeError("override_aten: left without being the one that overrides operators at the moment")
        _restore()
        _drop_compiled_functions()


def _restore() -> None:
    global _owner, _pass_before
    from torch._inductor import config

    torch.ops.reduce._override_aten(())
    config.post_grad_custom_pre_pass = _pass_before
    _owner = _pass_before = None


def _drop_compiled_functions() -> None:
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _inductor_pass(before: Any, operators: tuple[str, ...]) -> Any:
    """Return a pass over Inductor's graphs that runs after ``before``; its class needs imports that take a second."""
    from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

    aten, reduce = torch.ops.aten, torch.ops.reduce
    pairs: dict[str, dict[Any, Any]] = {
        "sum": {aten.sum.default: reduce.sum.default, aten.sum.dim_IntList: reduce.sum.dim_IntList},
        "mean": {aten.mean.default: reduce.mean.default, aten.mean.dim: reduce.mean.dim_IntList},
        "amax": {aten.amax.default: reduce.amax.default},
        "amin": {aten.amin.default: reduce.amin.default},
    }
    targets = {target: ours for name in operators for target, ours in pairs.get(name, {}).items()}
    variances = [getattr(aten, name).correction for name in ("var", "var_mean") if name in operators]

    class ToReduceOps(CustomGraphPass):
        def __call__(self, graph: torch.fx.Graph) -> None:
            if before is not None:
                before(graph)
            for node in graph.nodes:
                if node.target in targets and _has_kernel(node):
                    node.target = targets[node.target]
                elif node.target in variances and _has_kernel(node):
                    _hand_over_variance(graph, node)

        def uuid(self) -> Any:
            """Tell Inductor's cache which graphs this pass has seen."""
            mine = (get_hash_for_files((__file__,)), operators)
            return mine if before is None else (mine, before.uuid()) if isinstance(before, CustomGraphPass) else None

    return ToReduceOps()


def _hand_over_variance(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Put ``reduce._var_mean`` in the place of a variance, or of one and its mean."""
    x, *rest = node.args
    dim = rest[0] if rest else node.kwargs.get("dim")
    arguments = (x, dim, node.kwargs.get("correction"), node.kwargs.get("keepdim", False), False)
    value = node.meta["val"]
    with graph.inserting_before(node):
        both = graph.call_function(torch.ops.reduce._var_mean.default, arguments)
        both.meta["val"] = value if isinstance(value, tuple) else (value, value)
        result = both
        if not isinstance(value, tuple):
            result = graph.call_function(operator.getitem, (both, 0))
            result.meta["val"] = value
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _has_kernel(node: torch.fx.Node) -> bool:
    """Whether reduce_ops takes it: any but one of complex numbers as real ones, which Inductor leaves to aten."""
    x: torch.Tensor = node.args[0].meta["val"]  # type: ignore[union-attr]
    dtype = node.kwargs.get("dtype") or x.dtype
    assert isinstance(dtype, torch.dtype)
    return x.device.type in ("cpu", "cuda") and (dtype.is_complex or not x.is_complex())
