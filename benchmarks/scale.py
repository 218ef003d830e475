"""State, traffic and time per step of training on W processes, simulated from the measured costs of one shard.

python benchmarks/scale.py                                        # 10⁹ pairs, 10⁷ items, W = 1 to 64, on this CPU
python benchmarks/scale.py --device cuda --bandwidth 400 --processes 1 8

The model is a dot product of user and item vectors, trained with SONG and Adam. A process has a range of the users:
their pairs, memory u and vectors. Items are either replicated (their gradients are summed over all processes in each
step) or divided by rows (each step exchanges the rows of its slates and their gradients). The batch of all processes
together is the same for every W.

Measured, with tables of the size of a shard (up to --most-bytes each): sampling, gather and scatter of rows, scores and
loss with the update of u, and Adam, for 64 users. Simulated: everything else. Times are proportional to the users of a
process. Traffic is that of a ring, 2 (W − 1) / W times the bytes, at --bandwidth GB/s and --latency µs per exchange,
without overlap with computation.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from shapes import long_tailed
from timing import medians

from songrank import SONG, Relevance, Slate, SlateSampler
from songrank.losses.memory import MemoryTable

RELEVANT, IRRELEVANT = 10, 300
_COLUMNS = RELEVANT + IRRELEVANT
_FLOAT = 4
_ADAM = 3  # weights and two moments
_UNIT = 64  # users per measured step
_SAMPLE = (20_000, 2_000_000)  # users and pairs of the relevance that is sampled


@dataclass(frozen=True)
class Task:
    """Sizes of the whole task."""

    pairs: int
    users: int
    items: int
    dimension: int
    batch: int
    shared: int  # weights of layers, replicated in any case


@dataclass(frozen=True)
class Costs:
    """Milliseconds per step of one process."""

    sampling: float
    rows: float
    loss: float
    memory: float  # included in loss
    adam: float  # of the rows of the slates

    @property
    def common(self) -> float:
        """What does not depend on where the items are."""
        return self.sampling + self.rows + self.loss


def slate_of(relevance: Relevance, batch: int, pairs: int, device: str) -> Slate:
    """A sampled slate whose pairs are spread over the memory of a shard."""
    sampler = SlateSampler(relevance, batch, RELEVANT, IRRELEVANT)
    slate = sampler.draw(sampler.order(0)[:batch].to(device), 0)
    assert slate.pair is not None
    spread = torch.where(slate.pair < 0, slate.pair, slate.pair * (pairs // relevance.num_pairs))
    return replace(slate, pair=spread)


def measure(task: Task, world: int, relevance: Relevance, device: str, most_bytes: int, rounds: int) -> Costs:
    """Costs of one of ``world`` processes."""
    batch = max(1, min(_UNIT, task.batch // world))
    weights = most_bytes // _FLOAT
    pairs = max(relevance.num_pairs, min(task.pairs // world, weights))
    rows = max(1, min(task.items // world, weights // task.dimension))
    sampler = SlateSampler(relevance, batch, RELEVANT, IRRELEVANT)
    query = sampler.order(0)[:batch]
    slate = slate_of(relevance, batch, pairs, device)
    assert slate.pair is not None
    items = torch.randint(rows, (batch * _COLUMNS,), device=device)
    table = torch.randn(rows, task.dimension, device=device)
    user = torch.randn(batch, 1, task.dimension, device=device, requires_grad=True)
    item = torch.randn(batch, _COLUMNS, task.dimension, device=device, requires_grad=True)
    loss, memory = SONG(pairs).to(device), MemoryTable(pairs).to(device)
    places, values = slate.pair, torch.rand(slate.pair.shape, device=device)
    touched = torch.nn.Parameter(torch.zeros(batch * _COLUMNS, task.dimension, device=device))
    touched.grad = torch.ones_like(touched)
    adam = torch.optim.Adam([touched], foreach=True)

    def score() -> None:
        user.grad = item.grad = None
        loss((user * item).sum(-1), slate).backward()

    def exchange() -> None:
        found = table.index_select(0, items)
        table.index_add_(0, items, found, alpha=1e-9)

    def update() -> None:
        memory.gather(places)
        memory.scatter(places, values)

    steps: dict[str, Callable[[], object]] = {"sampling": lambda: sampler.draw(query, 0), "rows": exchange}
    steps |= {"loss": score, "memory": update, "adam": adam.step}
    scale = task.batch / world / batch
    return Costs(**{name: least(step, rounds) * scale for name, step in steps.items()})


def least(step: Callable[[], object], rounds: int) -> float:
    """Milliseconds of the fastest of some steps, which other work on the machine affects least."""
    return min(medians({"": step}, 1, 1)[""] for _ in range(rounds))


def adam_per_weight(device: str, rounds: int) -> float:
    """Milliseconds of dense Adam per weight."""
    table = torch.nn.Parameter(torch.zeros(1 << 22, device=device))
    table.grad = torch.ones_like(table)
    adam = torch.optim.Adam([table], foreach=True)
    return least(adam.step, rounds) / table.numel()


def state(task: Task, world: int, per_pair: float) -> dict[str, float]:
    """Bytes per process by part."""
    vector = _ADAM * _FLOAT * task.dimension
    return {
        "memory u": _FLOAT * task.pairs / world,
        "relevance": per_pair * task.pairs / world,
        "users": vector * task.users / world,
        "items, replicated": (vector + _FLOAT * task.dimension) * task.items,  # with the dense gradient
        "items, by rows": vector * task.items / world,
    }


def traffic(task: Task, world: int) -> tuple[float, float]:
    """Bytes that one process sends per step: items replicated, and by rows."""
    ring = 2 * (world - 1) / world * _FLOAT
    rows = task.batch // world * _COLUMNS * task.dimension
    return ring * (task.items * task.dimension + task.shared), ring * (rows + task.shared)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        print("  " + "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1e9)
    parser.add_argument("--users", type=float, default=1e7)
    parser.add_argument("--items", type=float, default=1e7)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4096, help="users per step, of all processes together")
    parser.add_argument("--shared", type=float, default=1e5, help="weights of layers, replicated in any case")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--bandwidth", type=float, default=11.0, help="GB/s per process and direction")
    parser.add_argument("--latency", type=float, default=50.0, help="µs per exchange")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most-bytes", type=float, default=5e8, help="largest table to allocate for a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="threads of a process on a CPU")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sizes = (options.pairs, options.users, options.items, options.dimension, options.batch, options.shared)
    task = Task(*map(int, sizes))
    relevance = long_tailed(_SAMPLE[0], task.items, _SAMPLE[1]).to(options.device)
    tensors = [value for value in vars(relevance).values() if isinstance(value, torch.Tensor)]
    per_pair = sum(value.numel() * value.element_size() for value in tensors) / relevance.num_pairs
    print(f"{task.pairs:,} pairs, {task.users:,} users, {task.items:,} items, dimension {task.dimension}")
    steps = task.users // task.batch
    print(f"{task.batch:,} users per step × ({RELEVANT} + {IRRELEVANT}) items, {steps:,} steps per epoch")
    print(f"measured on {options.device}; relevance: {per_pair:.1f} bytes per pair")

    costs = {
        world: measure(task, world, relevance, options.device, int(options.most_bytes), options.rounds)
        for world in options.processes
    }
    per_weight = adam_per_weight(options.device, options.rounds)
    rows = []
    for world in options.processes:
        parts = state(task, world, per_pair)
        common = sum(parts[name] for name in ("memory u", "relevance", "users"))
        totals = {name: common + parts[name] for name in ("items, replicated", "items, by rows")}
        rows.append([str(world), *(f"{size / 2**30:.2f}" for size in (*parts.values(), *totals.values()))])
    head = ["W", *state(task, 1, per_pair), "total, replicated", "total, by rows"]
    print_table("State per process, GiB", head, rows)

    names = ["sampling", "rows", "loss", "of it u", "Adam, rows"]
    rows = [
        [str(world), str(task.batch // world)]
        + [f"{value:.2f}" for value in (cost.sampling, cost.rows, cost.loss, cost.memory, cost.adam)]
        for world, cost in costs.items()
    ]
    print_table("Measured, ms per step of one process", ["W", "users", *names], rows)

    for way, title in enumerate(("items replicated", "items by rows")):
        rows, first = [], 0.0
        for world, cost in costs.items():
            update = (per_weight * task.items * task.dimension, cost.adam)[way]
            sent = traffic(task, world)[way]
            network = sent / options.bandwidth / 1e6 + (options.latency * 2 / 1e3 if world > 1 else 0)
            whole = cost.common + update + network
            first = first or whole
            hours = whole * (task.users / task.batch) / 3.6e6
            values = (sent / 2**20, cost.common, update, network, whole, hours)
            rows.append([str(world), *(f"{value:,.2f}" for value in values), f"{first / whole:.1f} ×"])
        head = ["W", "MiB sent", "compute ms", "Adam ms", "network ms", "step ms", "hours per epoch", "speed-up"]
        print_table(f"Simulated step, {title}", head, rows)
    print("\nNot simulated: waiting for the slowest process, evaluation, reading data, checkpoints.")


if __name__ == "__main__":
    main()
