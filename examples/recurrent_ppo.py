"""PPO with memory: sb3-contrib's RecurrentPPO, once as it is, once with any cell of rnnc.

CartPole without its velocities: the policy must remember where things were. Episodes start in the
middle of sequences, and states must not pass from one episode to the next. sb3-contrib cuts
sequences there, pads them, and runs its LSTM one step at a time. A cell of rnnc takes the episodes'
starts as resets and runs over whole sequences, in one call:

    pip install "rnnc[plots]" sb3-contrib gymnasium
    python examples/recurrent_ppo.py --cell lstm --out demo

`Memory`, `Policy`, `WholeSequences` and `RecurrentPPO` are what to copy into a project of yours;
they hold for discrete and continuous actions, and save and load as sb3's do. The folder `--out`
gets recurrent_ppo.png and recurrent_ppo.json.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any

# Threads that wait by spinning slow each other down when other programs use the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import rich
import rnnc
import torch
import typer
from matplotlib.figure import Figure
from rich.table import Table
from rnnc.bench.report import machine, machine_line
from rnnc.cli.progress import track
from torch import Tensor, nn

try:
    import gymnasium
    import sb3_contrib
    from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
except ImportError as error:
    raise SystemExit(
        f"{error}\nThis example needs two more packages: pip install sb3-contrib gymnasium"
    ) from None

# What of an observation is a position, for the environments that this script knows.
POSITIONS = {"CartPole-v1": [0, 2], "Pendulum-v1": [0, 1], "MountainCarContinuous-v0": [0]}
ENVIRONMENTS, HIDDEN = 8, 64
SETTINGS = {"n_steps": 128, "batch_size": 512, "learning_rate": 1e-3, "gae_lambda": 0.95}
Count = Annotated[int, typer.Option(min=1)]
Pair = tuple[Tensor, Tensor]


class Memory(nn.Module):
    """A cell of rnnc where sb3-contrib has an `nn.LSTM`.

    sb3-contrib keeps the states of a recurrence as two tensors (num_layers, B, hidden). A cell may
    have any number of states: their layers are put one after the other and cut into two halves.
    """

    def __init__(
        self, cell: rnnc.Cell, inputs: int, hidden: int, layers: int, as_torch: bool = False
    ) -> None:
        super().__init__()
        self.rnn = rnnc.RNN(cell, inputs, hidden, num_layers=layers)
        if as_torch:  # weights and biases start as those of nn.LSTM
            for name, parameter in self.rnn.named_parameters():
                if name.startswith(("weight", "bias")):
                    nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)
        self.rows = layers * len(cell.states)
        # What sb3-contrib asks of a recurrence.
        self.input_size, self.hidden_size, self.num_layers = inputs, hidden, (self.rows + 1) // 2

    def forward(self, x: Tensor, pair: Pair, starts: Tensor) -> tuple[Tensor, Pair]:
        """Run over (T, B, inputs); before steps where starts (T, B) is true, states are reset."""
        states = torch.cat(pair)[: self.rows].chunk(len(self.rnn.cell.states))
        if len(x) == 1:  # while the environments run
            y, last = self.rnn.step(x[0], states, reset=starts[0])
            y = y[None]
        else:
            y, last = self.rnn(x, states, reset=starts)
        kept = torch.cat([*last, last[0]])[: 2 * self.num_layers]  # an odd number is filled up
        return y, kept.chunk(2)


class Policy(RecurrentActorCriticPolicy):
    """sb3-contrib's policy with a cell of rnnc: `policy_kwargs={"cell": rnnc.cells.gru}`."""

    def __init__(
        self,
        *args: Any,
        cell: rnnc.Cell = rnnc.cells.lstm,
        as_torch: bool = False,
        n_lstm_layers: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(*args, n_lstm_layers=n_lstm_layers, **options)
        how = self.features_dim, self.lstm_output_dim, n_lstm_layers, as_torch
        self.lstm_actor = Memory(cell, *how)
        if self.enable_critic_lstm:
            self.lstm_critic = Memory(cell, *how)
        self.lstm_hidden_state_shape = self.lstm_actor.num_layers, 1, self.lstm_output_dim
        rate = self.optimizer.defaults["lr"]
        self.optimizer = self.optimizer_class(self.parameters(), lr=rate, **self.optimizer_kwargs)

    @staticmethod
    def _process_sequence(
        features: Tensor, lstm_states: Pair, episode_starts: Tensor, lstm: Memory
    ) -> tuple[Tensor, Pair]:
        """Run over sequences that are one below the other, (B · T, features): one call."""
        batch = lstm_states[0].shape[1]
        x = features.view(batch, -1, lstm.input_size).transpose(0, 1)
        starts = episode_starts.view(batch, -1).transpose(0, 1) > 0.5
        y, pair = lstm(x, lstm_states, starts)
        return y.transpose(0, 1).flatten(0, 1), pair


class WholeSequences(RecurrentRolloutBuffer):
    """A buffer that does not cut sequences where episodes start: fewer and longer rows."""

    def _get_samples(self, batch_inds: np.ndarray, *others: Any) -> Any:
        starts, self.episode_starts = self.episode_starts, np.zeros_like(self.episode_starts)
        samples = super()._get_samples(batch_inds, *others)
        self.episode_starts = starts
        return samples._replace(episode_starts=self.pad_and_flatten(starts[batch_inds]))


class RecurrentPPO(sb3_contrib.RecurrentPPO):
    """sb3-contrib's algorithm over whole sequences; its policy resets states within them."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.rollout_buffer.__class__ = WholeSequences  # the same data, in other minibatches


class PositionsOnly(gymnasium.ObservationWrapper):
    """An environment whose velocities are hidden; positions are scaled to their limits."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.kept = POSITIONS[env.spec.id]
        self.limits = np.abs(env.observation_space.high[self.kept])
        low = env.observation_space.low[self.kept] / self.limits
        self.observation_space = gymnasium.spaces.Box(low, np.ones_like(low))

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Take the positions of an observation."""
        return observation[self.kept] / self.limits


class Curve(BaseCallback):
    """The mean reward of the last 100 episodes after each rollout, and the seconds of updates."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.clock = clock
        self.steps, self.rewards, self.rollouts, self.updates = [], [], [], []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.steps:
            self.updates.append(self.clock() - self.since)
        self.since = self.clock()

    def _on_rollout_end(self) -> None:
        self.rollouts.append(self.clock() - self.since)
        self.steps.append(self.num_timesteps)
        episodes = self.model.ep_info_buffer
        self.rewards.append(statistics.fmean(e["r"] for e in episodes) if episodes else None)
        self.since = self.clock()

    def _on_training_end(self) -> None:
        self.updates.append(self.clock() - self.since)


def build(recurrence: str, cell: rnnc.Cell, env: str, seed: int, device: str) -> Any:
    """The algorithm with sb3-contrib's own recurrence, or with a cell."""
    environments = make_vec_env(env, ENVIRONMENTS, seed=seed, wrapper_class=PositionsOnly)
    options: dict[str, Any] = {"lstm_hidden_size": HIDDEN, "net_arch": {"pi": [], "vf": [64]}}
    settings = SETTINGS | {"seed": seed, "device": device}
    if recurrence == "sb3-contrib":
        policy = "MlpLstmPolicy"
        return sb3_contrib.RecurrentPPO(policy, environments, policy_kwargs=options, **settings)
    options |= {"cell": cell, "as_torch": recurrence == "as torch"}
    return RecurrentPPO(Policy, environments, policy_kwargs=options, **settings)


def train(
    recurrence: str, cell: rnnc.Cell, env: str, steps: int, seed: int, device: str
) -> dict[str, Any]:
    """One run: the curve and the times."""
    # Other programs lengthen what takes place on a CPU, but not its processor time.
    curve = Curve(time.process_time if device == "cpu" else time.perf_counter)
    build(recurrence, cell, env, seed, device).learn(steps, callback=curve)
    names = "steps", "rewards", "rollouts", "updates"
    return {"recurrence": recurrence, "seed": seed} | {n: getattr(curve, n) for n in names}


def of(runs: list[dict[str, Any]], recurrence: str, name: str) -> np.ndarray:
    """A figure of all seeds: (seeds, rollouts)."""
    found = [run[name] for run in runs if run["recurrence"] == recurrence]
    return np.array(found, dtype=float)


def draw(runs: list[dict[str, Any]], labels: dict[str, str], env: str, path: Path) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for recurrence, label in labels.items():
        steps, rewards = of(runs, recurrence, "steps")[0], of(runs, recurrence, "rewards")
        (line,) = left.plot(steps, rewards.mean(0), label=label)
        left.fill_between(
            steps, rewards.min(0), rewards.max(0), color=line.get_color(), alpha=0.2, linewidth=0
        )
        right.plot(steps, np.median(of(runs, recurrence, "updates"), 0), label=label)
    seeds = len(of(runs, recurrence, "steps"))
    left.set(xlabel="steps of the environments", ylabel="reward of the last 100 episodes")
    left.set_title(f"{env}, velocities hidden: mean and range of {seeds} seeds")
    right.set(xlabel="steps of the environments", ylabel="seconds", ylim=0, title="An update")
    left.legend()
    figure.savefig(path, dpi=110)


def main(
    cell: str = "lstm",
    env: str = "CartPole-v1",
    steps: Count = 60_000,
    seeds: Count = 3,
    out: Path = Path("demo"),
    device: str = "cpu",
    threads: Count = 1,
) -> None:
    """Train all for STEPS steps of the environments per seed; compare rewards and times."""
    if cell not in rnnc.cells.names():
        raise SystemExit(f"no cell of the name {cell!r}: `rnnc list` shows the cells")
    if env not in POSITIONS:
        raise SystemExit(f"{env!r} is not among {', '.join(POSITIONS)}: add it to POSITIONS")
    torch.set_num_threads(threads)
    labels = {
        "sb3-contrib": "sb3-contrib (nn.LSTM)",
        "as torch": f"rnnc ({cell}), weights start as torch's",
        "rnnc": f"rnnc ({cell})",
    }
    chosen, runs = getattr(rnnc.cells, cell), []
    for seed, recurrence in track([(s, r) for s in range(seeds) for r in labels], "training"):
        runs.append(train(recurrence, chosen, env, steps, seed, device))
    on = machine(device)
    table = Table("recurrence", "reward", "of each seed", "update s", "rollout s", title=env)
    table.caption = f"Medians over all updates, on a CPU of processor time. {machine_line(on)}"
    for recurrence, label in labels.items():
        last = of(runs, recurrence, "rewards")[:, -1]
        times = [f"{np.median(of(runs, recurrence, n)):.3f}" for n in ("updates", "rollouts")]
        table.add_row(label, f"{last.mean():.0f}", " ".join(f"{r:.0f}" for r in last), *times)
    out.mkdir(parents=True, exist_ok=True)
    record = {"date": str(date.today()), "machine": on, "env": env, "cell": cell}
    record |= {"settings": SETTINGS, "environments": ENVIRONMENTS, "hidden": HIDDEN, "runs": runs}
    (out / "recurrent_ppo.json").write_text(json.dumps(record) + "\n", "utf-8")
    draw(runs, labels, env, out / "recurrent_ppo.png")
    rich.print(table, f"The curves are in {out}.")


if __name__ == "__main__":
    typer.run(main)
