"""Trains a small classifier of handwritten digits twice, side by side: its loss summed by sum_v7 and by torch.sum.

    PYTHONPATH=. .venv/bin/python examples/train.py --plot loss.png

The data, 1797 images of 8 x 8 pixels, comes with scikit-learn. Both trainings start from the same weights and see the
same batches, so their losses are the same but for rounding, and the times of their steps can be compared.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import reduce_ops

SUMS: dict[str, Callable[[Tensor], Tensor]] = {"sum_v7": reduce_ops.sum_v7, "torch.sum": torch.sum}


class Training:
    """A model, its optimizer and what became of them."""

    def __init__(self, model: nn.Module, total: Callable[[Tensor], Tensor], learning_rate: float) -> None:
        self.model = model
        self.total = total
        self.optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
        self.losses: list[float] = []
        self.step_seconds: list[float] = []

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Make one step, time it and return the mean loss of the batch."""
        start = time.perf_counter()
        loss = self.total(functional.cross_entropy(self.model(images), labels, reduction="none")) / len(labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if images.is_cuda:
            torch.cuda.synchronize()
        self.step_seconds.append(time.perf_counter() - start)
        return loss.detach()

    def epoch(self, batches: Sequence[tuple[Tensor, Tensor]], others: Sequence["Training"]) -> None:
        """Train on all batches, in turns with the others, so that a machine that slows down meets all alike."""
        trainings = (self, *others)
        losses = {training: torch.zeros((), device=batches[0][0].device) for training in trainings}
        for i, (images, labels) in enumerate(batches):
            for training in trainings if i % 2 else reversed(trainings):
                losses[training] += training.step(images, labels)
        for training in trainings:
            training.losses.append(losses[training].item() / len(batches))

    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        """Return the share of images that are given their label."""
        with torch.no_grad():
            return (self.model(images).argmax(1) == labels).float().mean().item()


def plot(trainings: dict[str, Training], path: Path) -> None:
    """Draw the loss of each epoch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (name, training), style in zip(trainings.items(), ("-", "--"), strict=True):
        axes.semilogy(range(1, len(training.losses) + 1), training.losses, style, label=f"loss summed by {name}")
    axes.set_xlabel("epoch")
    axes.set_ylabel("mean cross entropy")
    axes.set_title("Handwritten digits")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return 1 if the losses differ by more than rounding."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the loss curves, as .png or .svg")
    options = parser.parse_args(arguments)
    for name in ("epochs", "batch_size"):
        if getattr(options, name) < 1:
            parser.error(f"argument --{name.replace('_', '-')}: must be at least 1")

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32, device=options.device) / 16
    labels = torch.tensor(digits.target, device=options.device)
    torch.manual_seed(0)
    order = torch.randperm(len(images), device=options.device)
    test, train = order[:297], order[297:]
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(
        options.device
    )
    trainings = {name: Training(copy.deepcopy(model), total, options.learning_rate) for name, total in SUMS.items()}
    first, *others = trainings.values()

    epochs = track(range(options.epochs), description="training", console=Console(stderr=True), transient=True)
    for _ in epochs:
        batches = [(images[part], labels[part]) for part in train[torch.randperm(len(train))].split(options.batch_size)]
        first.epoch(batches, others)

    for name, training in trainings.items():
        accuracy = training.accuracy(images[test], labels[test])
        step = statistics.median(training.step_seconds)
        print(f"{name:>9}: loss {training.losses[-1]:.6f}, accuracy {accuracy:.3f}, {step * 1e6:.1f} us a step")
    if options.plot:
        try:
            plot(trainings, options.plot)
        except (OSError, ValueError) as error:
            parser.error(f"argument --plot: {error}")
    losses = [torch.tensor(training.losses, dtype=torch.float64) for training in trainings.values()]
    if not torch.allclose(*losses, rtol=1e-3):
        print("the losses differ by more than rounding", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
