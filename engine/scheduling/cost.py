"""Cost of an engine's steps, learned as they happen, and the lengths of tenants' answers. Pure.

`StepCost` is recursive least squares with forgetting over `step time = a + b * prefill tokens + c * sequences
+ d * context tokens` (design: token-aware admission). `OutputLengths` keeps the q80 of answers. Both hold a
fixed amount of memory, whatever they are fed.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FORGETTING = 0.998  # a step counts half as much 350 steps later
OUTLIER = 6.0  # larger residuals, in usual ones, are cut to this: a pause is not the engine's cost
RESIDUAL_SMOOTHING = 0.05
UNITS = (1.0, 256.0, 16.0, 8192.0)  # scales of the regressors, so that coefficients are seconds of like size
SPREAD = 10.0  # of a coefficient around its prior; 10 trusts the prior little

QUANTILE = 0.8
LENGTHS_KEPT = 32
LENGTHS_NEEDED = 5
TABLE_ENTRIES_MAX = 4096

Matrix = list[list[float]]


@dataclass(frozen=True)
class StepLoad:
    """Work of one engine step: prompt tokens computed, sequences, tokens of context they attend to."""

    prefill_tokens: float
    sequences: float
    context_tokens: float


class StepCost:
    """One engine's step time. Before the first measurement it is `prior_seconds` a token of prefill.

    Coefficients are what fits best among those that are not negative, so no prediction is.
    """

    def __init__(self, prior_seconds: float) -> None:
        self._prior = [0.0, prior_seconds * UNITS[1], 0.0, 0.0]
        self._reset()

    def learn(self, load: StepLoad, seconds: float) -> None:
        """Learn one step's time. A value that is not finite and positive is ignored."""
        if not 0.0 < seconds < math.inf:
            return
        x = _scaled(load)
        px = [_dot(row, x) for row in self._covariance]
        gain_base = FORGETTING + _dot(x, px)
        error = self._within_usual(seconds - _dot(self._fit, x))
        gain = [value / gain_base for value in px]
        self._fit = [was + part * error for was, part in zip(self._fit, gain, strict=True)]
        self._covariance = _forgotten(self._covariance, gain, px)
        self._coefficients = None
        self.steps += 1
        if not all(map(math.isfinite, (*self._fit, *(row[at] for at, row in enumerate(self._covariance))))):
            self._reset()

    def predict(self, load: StepLoad) -> float:
        """Seconds that a step with this load takes, at least 0."""
        return _dot(self._best(), _scaled(load))

    @property
    def coefficients(self) -> tuple[float, float, float, float]:
        """a, b, c, d in seconds a step, prefill token, sequence and context token; none is negative."""
        a, b, c, d = (value / unit for value, unit in zip(self._best(), UNITS, strict=True))
        return a, b, c, d

    def prefill_rate(self, load: StepLoad) -> float:
        """Prompt tokens a second, in steps with this load."""
        return load.prefill_tokens / max(self.predict(load), 1e-6)

    def work_seconds(self, prompt_tokens: int, output_tokens: int, beside: int = 1) -> float:
        """Engine time that one request takes, where each step is shared by `beside` sequences."""
        a, b, c, d = self.coefficients
        context = prompt_tokens + output_tokens / 2
        return b * prompt_tokens + output_tokens * (a / max(1, beside) + c + d * context)

    def wait_seconds(self, ahead: Iterable[tuple[int, int]], slots: int) -> float:
        """Seconds that a full engine works on requests (prompt, output tokens) before it starts the next."""
        return sum(self.work_seconds(prompt, output, slots) for prompt, output in ahead)

    def _reset(self) -> None:
        self._fit = list(self._prior)
        self._covariance = [[SPREAD**2 * (row == at) for at in range(4)] for row in range(4)]
        self._coefficients: list[float] | None = None
        self._residual = math.inf
        self.steps = 0

    def _within_usual(self, error: float) -> float:
        """The residual, winsorised: the bound grows with what it cuts, so a lasting change is learned."""
        usual = self._residual
        most = OUTLIER * usual if self.steps > 2 * len(UNITS) else math.inf
        size = abs(error)
        self._residual = (
            size if math.isinf(usual) else usual + RESIDUAL_SMOOTHING * (min(size, 20 * usual + 1e-6) - usual)
        )
        return max(-most, min(most, error))

    def _best(self) -> list[float]:
        """The fit, conditioned on 0 for each coefficient that would be negative, the worst first."""
        if self._coefficients is None:
            fit, covariance = list(self._fit), [list(row) for row in self._covariance]
            free = set(range(len(UNITS)))
            while negative := [at for at in free if fit[at] < 0.0]:
                worst = min(negative, key=lambda at: fit[at])
                free.remove(worst)
                _condition_on_zero(fit, covariance, worst)
            self._coefficients = [max(0.0, value) if at in free else 0.0 for at, value in enumerate(fit)]
        return self._coefficients


class OutputLengths:
    """Expected lengths of answers: the q80 of a tenant's last ones with prompts of a similar length."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, int], deque[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def learn(self, tenant: str, prompt_tokens: int, output_tokens: int) -> None:
        """Learn an ended answer's tokens. The pair used least recently makes room."""
        bucket = prompt_tokens.bit_length()
        for key in ((tenant, bucket), ("", bucket)):
            self._seen.setdefault(key, deque(maxlen=LENGTHS_KEPT)).append(output_tokens)
            self._seen.move_to_end(key)
        while len(self._seen) > TABLE_ENTRIES_MAX:
            self._seen.popitem(last=False)

    def expected(
        self, tenant: str, prompt_tokens: int, max_tokens: int, so_far: int = 0, unknown: int = 0
    ) -> int:
        """Tokens that such an answer ends with, at most `max_tokens`; `unknown` while too few are known.

        An answer that is longer already is expected to grow by a quarter.
        """
        bucket, usual = prompt_tokens.bit_length(), unknown or max_tokens
        for key in ((tenant, bucket), ("", bucket)):
            seen = self._seen.get(key)
            if seen is not None and len(seen) >= LENGTHS_NEEDED:
                usual = sorted(seen)[math.ceil(QUANTILE * len(seen)) - 1]
                break
        return min(max_tokens, usual if so_far < usual else so_far + so_far // 4 + 1)


def _scaled(load: StepLoad) -> list[float]:
    values = (1.0, load.prefill_tokens, load.sequences, load.context_tokens)
    return [value / unit for value, unit in zip(values, UNITS, strict=True)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _forgotten(covariance: Matrix, gain: Sequence[float], px: Sequence[float]) -> Matrix:
    """The covariance after a measurement, symmetric, and after forgetting.

    Directions in which nothing is measured are forgotten up to what was not known at first and no further:
    without that bound the estimate blows up after an hour of equal steps.
    """
    size = range(len(px))
    after = [[(covariance[row][at] - gain[row] * px[at]) / FORGETTING for at in size] for row in size]
    most = SPREAD**2
    shrink = [math.sqrt(min(1.0, most / max(after[at][at], 1e-12))) for at in size]
    return [[shrink[row] * shrink[at] * (after[row][at] + after[at][row]) / 2 for at in size] for row in size]


def _condition_on_zero(fit: list[float], covariance: Matrix, fixed: int) -> None:
    """The most likely fit, given that coefficient `fixed` is 0: exact for a Gaussian."""
    variance, moved = max(covariance[fixed][fixed], 1e-18), fit[fixed]
    column = [row[fixed] for row in covariance]
    for row, share in enumerate(column):
        fit[row] -= share / variance * moved
        for at, other in enumerate(column):
            covariance[row][at] -= share * other / variance
    fit[fixed] = 0.0
