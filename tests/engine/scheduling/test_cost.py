"""The cost model: learns what steps cost under noise, forgets, and never says anything impossible."""

import math
import random

import pytest

from engine.scheduling.cost import TABLE_ENTRIES_MAX, OutputLengths, StepCost, StepLoad

TRUE = (0.012, 0.0009, 0.0011, 0.0000021)


def seconds(load: StepLoad, coefficients: tuple[float, float, float, float] = TRUE) -> float:
    """What an engine with these coefficients takes."""
    a, b, c, d = coefficients
    return a + b * load.prefill_tokens + c * load.sequences + d * load.context_tokens


def a_load(chance: random.Random) -> StepLoad:
    """Any step of a busy engine."""
    sequences = chance.randint(1, 32)
    prefill = chance.choice((0, 0, chance.randint(1, 256)))
    return StepLoad(prefill, sequences, sequences * chance.randint(10, 2000))


def taught(seed: int, steps: int, noise: float = 0.05) -> tuple[StepCost, random.Random]:
    """A model that saw steps whose times vary by `noise`."""
    print(f"seed {seed}")
    chance, model = random.Random(seed), StepCost(0.002)
    for _ in range(steps):
        load = a_load(chance)
        model.learn(load, seconds(load) * chance.gauss(1.0, noise))
    return model, chance


@pytest.mark.parametrize("seed", range(8))
def test_coefficients_are_recovered_under_noise(seed: int):
    """Within a tenth on 1,000 steps that vary by 5 %, and every prediction within 5 %."""
    model, chance = taught(seed, 1000)
    assert model.coefficients[1] == pytest.approx(TRUE[1], rel=0.1)
    assert model.coefficients[2] == pytest.approx(TRUE[2], rel=0.15)
    for _ in range(50):
        load = a_load(chance)
        assert model.predict(load) == pytest.approx(seconds(load), rel=0.05, abs=0.002)


@pytest.mark.parametrize("seed", range(8))
def test_a_few_steps_are_enough_to_be_about_right(seed: int):
    """A worker that just started must not be wrong for long: 7 % after 40 steps."""
    model, chance = taught(seed, 40)
    loads = [a_load(chance) for _ in range(100)]
    errors = [abs(model.predict(load) / seconds(load) - 1) for load in loads]
    assert sum(errors) / len(errors) < 0.07


@pytest.mark.parametrize("seed", range(8))
def test_what_changed_is_forgotten(seed: int):
    """Another process takes half the cores: 600 steps later the slower engine is predicted."""
    model, chance = taught(seed, 1000)
    slower = (TRUE[0] * 2, TRUE[1] * 2, TRUE[2] * 3, TRUE[3])
    for _ in range(600):
        load = a_load(chance)
        model.learn(load, seconds(load, slower) * chance.gauss(1.0, 0.05))
    errors: list[float] = []
    for _ in range(100):
        load = a_load(chance)
        errors.append(abs(model.predict(load) / seconds(load, slower) - 1))
    assert sum(errors) / len(errors) < 0.15


def test_an_hour_of_equal_steps_leaves_the_rest_as_it_was():
    """Decoding one sequence for long says nothing of prefill: neither blown up nor forgotten to zero."""
    model, chance = taught(5, 1000)
    for step in range(20_000):
        load = StepLoad(0, 1, 500 + step % 7)
        model.learn(load, seconds(load) * chance.gauss(1.0, 0.05))
    assert model.predict(StepLoad(0, 1, 500)) == pytest.approx(seconds(StepLoad(0, 1, 500)), rel=0.05)
    full = StepLoad(256, 8, 4000)
    assert 0.3 < model.predict(full) / seconds(full) < 3


def test_a_pause_is_not_a_cost():
    """One step in 50 stands still for 2 s: predictions stay within a third."""
    print("seed 9")
    chance, model = random.Random(9), StepCost(0.002)
    for step in range(2000):
        load = a_load(chance)
        model.learn(load, 2.0 if step % 50 == 49 else seconds(load) * chance.gauss(1.0, 0.05))
    full = StepLoad(256, 16, 16_000)
    assert model.predict(full) == pytest.approx(seconds(full), rel=0.34)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_predicted_is_negative_or_infinite(seed: int):
    """Whatever it is fed: nonsense, noise without a pattern, huge and tiny loads."""
    print(f"seed {seed}")
    chance, model = random.Random(seed), StepCost(0.002)
    for _ in range(400):
        scale = chance.choice((0.0, 1.0, 100.0, 1e6))
        load = StepLoad(scale * chance.random(), scale * chance.random(), scale * chance.random())
        model.learn(
            load, chance.choice((-1.0, 0.0, math.nan, math.inf, chance.random(), 100 * chance.random()))
        )
        asked = StepLoad(chance.random() * 1e5, chance.random() * 100, chance.random() * 1e6)
        assert 0.0 <= model.predict(asked) < math.inf
        assert all(value >= 0.0 for value in model.coefficients)
        assert 0.0 < model.prefill_rate(StepLoad(256, 1, 0)) < math.inf


def test_before_any_step_prefill_costs_what_was_believed():
    """Nothing is admitted without bound because nothing was measured yet."""
    model = StepCost(0.5 / 256)
    assert model.predict(StepLoad(256, 0, 0)) == pytest.approx(0.5)
    assert model.prefill_rate(StepLoad(256, 0, 0)) == pytest.approx(512)


def test_waits_add_up_the_work_that_is_ahead():
    """Prompts at the rate of prefill, answers at what a sequence adds to each step."""
    model, _ = taught(1, 1000, noise=0.0)
    a, b, c, d = TRUE
    one = 100 * b + 50 * (a / 8 + c + d * 125)
    assert model.work_seconds(100, 50, beside=8) == pytest.approx(one, rel=0.02)
    assert model.wait_seconds([(100, 50)] * 10, slots=8) == pytest.approx(10 * one, rel=0.02)
    assert model.wait_seconds([], slots=8) == 0


def test_expected_output_is_the_tenants_q80_for_such_prompts():
    """By tenant and length of prompt; others' answers while its own are few; all it may while none are."""
    lengths = OutputLengths()
    assert lengths.expected("t1", 100, 1000) == 1000
    for length in range(10, 110, 10):
        lengths.learn("t1", 100, length)
    assert lengths.expected("t1", 100, 1000) == 80
    assert lengths.expected("t1", 90, 50) == 50
    assert lengths.expected("t2", 100, 1000) == 80
    assert lengths.expected("t1", 5000, 1000) == 1000
    for _ in range(100):
        lengths.learn("t2", 100, 500)
    assert lengths.expected("t2", 100, 1000) == 500
    assert lengths.expected("t1", 100, 1000) == 80


def test_an_answer_beyond_what_was_expected_goes_on_for_a_while():
    """Never less than it has and one more, never more than it may."""
    lengths = OutputLengths()
    for _ in range(10):
        lengths.learn("t1", 100, 40)
    assert lengths.expected("t1", 100, 1000, so_far=39) == 40
    assert lengths.expected("t1", 100, 1000, so_far=40) == 51
    assert lengths.expected("t1", 100, 1000, so_far=800) == 1000


def test_tenants_without_number_do_not_fill_the_memory():
    """The table has its bound; who came last is known."""
    lengths = OutputLengths()
    for number in range(TABLE_ENTRIES_MAX + 500):
        lengths.learn(f"t{number}", 100, number)
    assert len(lengths) == TABLE_ENTRIES_MAX


def test_each_step_moves_the_fit_by_as_much_as_it_did():
    """Worked out once, with a step of forty times its cost among each thirteen: coefficients, and a step's
    prediction, to six digits."""
    chance, model = random.Random(7), StepCost(0.002)
    seen: dict[int, tuple[float, ...]] = {}
    for step in range(1, 121):
        load = a_load(chance)
        model.learn(load, seconds(load) * (40.0 if step % 13 == 0 else chance.gauss(1.0, 0.05)))
        seen[step] = (*model.coefficients, model.predict(StepLoad(100, 10, 9000)))
    assert model.steps == 120
    expected = {
        1: (7.039956e-03, 2.000000e-03, 5.774964e-04, 2.958594e-06, 2.394423e-01),
        8: (7.579291e-03, 9.471509e-04, 1.186567e-03, 2.218079e-06, 1.341228e-01),
        9: (7.318690e-03, 9.478206e-04, 1.194928e-03, 2.223004e-06, 1.340571e-01),
        13: (0.0, 1.310268e-03, 3.703853e-03, 1.642957e-06, 1.828519e-01),
        30: (0.0, 9.818160e-04, 6.408826e-03, 0.0, 1.622699e-01),
        120: (8.443129e-02, 6.069873e-04, 3.539750e-03, 0.0, 1.805275e-01),
    }
    for step, facts in expected.items():
        assert seen[step] == pytest.approx(facts, rel=1e-5)


def test_what_is_no_time_is_no_measurement():
    """Neither nothing, nor less, nor what never ends."""
    model = StepCost(0.002)
    for took in (0.0, -1.0, math.inf, math.nan):
        model.learn(StepLoad(1, 1, 1), took)
    assert (model.steps, model.coefficients) == (0, (0.0, 0.002, 0.0, 0.0))
    assert model.work_seconds(100, 50) == pytest.approx(0.2)


def test_lengths_count_from_five_on_and_the_last_32():
    """Of prompts of as many binary digits."""
    lengths = OutputLengths()
    for _ in range(4):
        lengths.learn("t1", 64, 10)
    assert lengths.expected("t1", 64, 1000, unknown=77) == 77
    lengths.learn("t1", 127, 10)
    assert lengths.expected("t1", 100, 1000, unknown=77) == 10
    assert lengths.expected("t1", 128, 1000) == lengths.expected("t1", 63, 1000) == 1000
    for _ in range(32):
        lengths.learn("t1", 64, 500)
    assert lengths.expected("t1", 64, 1000) == 500
    for _ in range(25):
        lengths.learn("t1", 64, 20)
    assert lengths.expected("t1", 64, 1000) == 500
    lengths.learn("t1", 64, 20)
    assert lengths.expected("t1", 64, 1000) == 20, "seven of 32 are more than a fifth no more"


def test_who_came_last_is_known_and_who_came_first_is_not():
    """4,096 pairs of tenant and length, that of all tenants among them."""
    lengths = OutputLengths()
    for number in range(4_096):
        for _ in range(5):
            lengths.learn(f"t{number}", 100, number)
    assert len(lengths) == 4_096
    assert lengths.expected("t4095", 100, 9_999) == 4_095
    assert lengths.expected("t1", 100, 9_999) == 1
    assert lengths.expected("t0", 100, 9_999) == lengths.expected("nobody", 100, 9_999) == 4_094
