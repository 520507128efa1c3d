"""``override_aten``: a whole model whose sums have the bits of ``reduce.sum``."""

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


class override_aten:  # noqa: N801  # named as what it does, like torch.no_grad
    """Context in which ``torch.sum`` is ``reduce.sum``, in every thread of the process, forward and backward.

    It covers ``aten::sum`` with and without dimensions, with ``out=`` too, on CPUs and CUDA devices, and so all that
    PyTorch computes by calling it: ``torch.sum``, ``Tensor.sum``, elementwise losses with ``reduction="sum"`` (such as
    ``mse_loss``), gradients of broadcasts (biases, scales, ``expand``), ``sum_to_size``, and on a CPU ``torch.mean``.
    Under ``torch.compile``, Inductor hands the same sums to ``reduce.sum``, also those that an operator was decomposed
    into (of a softmax, say), at the price that they are no longer fused with what surrounds them. Those results have
    the same bits on every device, in every run and at any strides, as long as the summed values have.

    It does **not** cover what other kernels add: matrix products, convolutions and attention (cuBLAS, cuDNN,
    FlashAttention, oneDNN), ``torch.mean``, losses with ``reduction="mean"`` and means under ``torch.compile``; in
    eager mode ``cross_entropy``, ``nll_loss`` and the multi-margin losses with ``reduction="sum"`` (sum what
    ``reduction="none"`` gives instead), norms, variances and softmax; batch, layer and group normalization, ``cumsum``,
    ``prod``, ``index_add``, ``scatter_add`` and embedding gradients, ``einsum``, ``nansum``, sparse and nested tensors,
    sums across processes, and the gradients that are accumulated where a tensor was used more than once. Of those that
    differ from run to run ``torch.use_deterministic_algorithms`` takes care.

    On entering and on leaving, compiled functions are dropped (``torch.compiler.reset``), because nothing in them asks
    whether sums are overridden: enter it once around a training, not once a step. No other thread may be summing at
    these two moments. What is compiled in between has to be compiled by the thread that entered, because PyTorch newer
    than 2.11 keeps Inductor's settings for each thread.

    >>> with override_aten():
    ...     torch.ones(1000).sum()
    tensor(1000.)

    Raises:
        RuntimeError: Sums are overridden already, by a context or by ``set_override_aten``; or a context is left that
            is not the one that was entered. In either case the one that was entered stays until it is left.
    """

    @_outside_of_graphs
    def __enter__(self) -> "override_aten":
        _begin(self)
        return self

    @_outside_of_graphs
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _end(self)


@_outside_of_graphs
def set_override_aten(enabled: bool) -> None:
    """Switch on, or off again, for the rest of the process, what `override_aten` does for a block.

    Raises:
        RuntimeError: It is on already, or on through a context, or not on.
    """
    (_begin if enabled else _end)(set_override_aten)


def _begin(owner: object) -> None:
    global _owner, _pass_before
    with _lock:
        if _owner is not None:
            raise RuntimeError("override_aten: torch.sum is overridden already; leave that context, or switch it off")
        from torch._inductor import config

        _pass_before = config.post_grad_custom_pre_pass
        inductor_pass = _inductor_pass(_pass_before)
        torch.ops.reduce._override_aten(True)
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
            raise RuntimeError("override_aten: left without being the one that overrides torch.sum at the moment")
        _restore()
        _drop_compiled_functions()


def _restore() -> None:
    global _owner, _pass_before
    from torch._inductor import config

    torch.ops.reduce._override_aten(False)
    config.post_grad_custom_pre_pass = _pass_before
    _owner = _pass_before = None


def _drop_compiled_functions() -> None:
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _inductor_pass(before: Any) -> Any:
    """Return a pass over Inductor's graphs that runs after ``before``; its class needs imports that take a second."""
    from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

    aten, reduce = torch.ops.aten.sum, torch.ops.reduce.sum
    targets = {aten.default: reduce.default, aten.dim_IntList: reduce.dim_IntList}

    class SumsToReduceSum(CustomGraphPass):
        def __call__(self, graph: torch.fx.Graph) -> None:
            if before is not None:
                before(graph)
            for node in graph.nodes:
                if node.target in targets and _has_kernel(node):
                    node.target = targets[node.target]

        def uuid(self) -> Any:
            """Tell Inductor's cache which graphs this pass has seen."""
            mine = get_hash_for_files((__file__,))
            return mine if before is None else (mine, before.uuid()) if isinstance(before, CustomGraphPass) else None

    return SumsToReduceSum()


def _has_kernel(node: torch.fx.Node) -> bool:
    """Whether reduce.sum takes the sum: any but one of complex numbers as real ones, which Inductor leaves to aten."""
    x: torch.Tensor = node.args[0].meta["val"]  # type: ignore[union-attr]
    dtype = node.kwargs.get("dtype") or x.dtype
    assert isinstance(dtype, torch.dtype)
    return x.device.type in ("cpu", "cuda") and (dtype.is_complex or not x.is_complex())
