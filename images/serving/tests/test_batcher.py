"""Batches: how they form, overlap, push back and fail. The model is a function that doubles."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from ascend_serving.batcher import Batcher, BatchLimits
from ascend_serving.errors import Internal, InvalidRequest, Unavailable

LANE = ("serving_default", ())


class Model:
    """Doubles; notes the batches it saw. `gate`, when given, holds each batch until it is set."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.batches: list[int] = []
        self.gate = gate
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def __call__(self, lane, inputs):
        with self._lock:
            self.batches.append(len(inputs["x"]))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        if self.gate is not None:
            assert self.gate.wait(10)
        with self._lock:
            self.at_once -= 1
        if (inputs["x"] < 0).any():
            raise InvalidRequest("negative")
        return {"y": inputs["x"] * 2}


def values(*numbers: float) -> dict[str, np.ndarray]:
    return {"x": np.array(numbers, np.float32)}


async def ask(batcher: Batcher, *numbers: float, lane=LANE) -> list[float]:
    outputs = await batcher.submit(lane, values(*numbers), len(numbers))
    return outputs["y"].tolist()


def run(model, limits, scenario):
    async def main():
        batcher = Batcher(model, limits)
        try:
            return await scenario(batcher)
        finally:
            batcher.close()

    return asyncio.run(main())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0.01)


def test_what_arrives_together_goes_together_and_each_gets_its_own():
    model = Model()

    async def scenario(batcher):
        return await asyncio.gather(*(ask(batcher, n, n + 0.5) for n in range(10)))

    answers = run(model, BatchLimits(), scenario)
    assert answers == [[2 * n, 2 * n + 1] for n in range(10)]
    assert model.batches == [20]


def test_a_batch_counts_instances_and_not_requests():
    model = Model()

    async def scenario(batcher):
        await asyncio.gather(*(ask(batcher, *range(10)) for _ in range(7)))

    run(model, BatchLimits(max_batch=32), scenario)
    assert sorted(model.batches) == [10, 30, 30]


def test_a_request_larger_than_a_batch_is_split_and_joined_in_order():
    model = Model()

    async def scenario(batcher):
        return await ask(batcher, *range(100))

    assert run(model, BatchLimits(max_batch=32), scenario) == [2.0 * n for n in range(100)]
    assert sorted(model.batches) == [4, 32, 32, 32]


def test_requests_of_different_lanes_never_share_a_batch():
    model = Model()

    async def scenario(batcher):
        await asyncio.gather(
            *(ask(batcher, 1.0, lane=("serving_default", shape)) for shape in (1, 2, 1, 2))
        )

    run(model, BatchLimits(), scenario)
    assert model.batches == [2, 2]


def test_batches_overlap_up_to_the_number_of_workers():
    gate = threading.Event()
    model = Model(gate)

    async def scenario(batcher):
        asks = [asyncio.ensure_future(ask(batcher, *range(32))) for _ in range(6)]
        await settle()
        running, queued = batcher.running, batcher.queued
        gate.set()
        await asyncio.gather(*asks)
        return running, queued

    assert run(model, BatchLimits(workers=4), scenario) == (4, 64)
    assert model.most_at_once == 4


def test_a_full_queue_refuses_and_says_when_to_come_again():
    gate = threading.Event()

    async def scenario(batcher):
        first = asyncio.ensure_future(ask(batcher, 1.0))
        await settle()
        second = asyncio.ensure_future(ask(batcher, 1.0, 2.0, 3.0))
        await settle()
        with pytest.raises(Unavailable, match="3 instances wait and 4 may") as caught:
            await ask(batcher, 1.0, 2.0)
        fits = asyncio.ensure_future(ask(batcher, 9.0))
        await settle()
        gate.set()
        return caught.value.retry_after_s, await first, await second, await fits

    limits = BatchLimits(max_queue=4, workers=1)
    assert run(Model(gate), limits, scenario) == (1, [2.0], [2.0, 4.0, 6.0], [18.0])


def test_a_request_larger_than_the_queue_is_served_when_it_is_alone():
    async def scenario(batcher):
        return len(await ask(batcher, *range(50)))

    assert run(Model(), BatchLimits(max_batch=8, max_queue=4), scenario) == 50


def test_one_request_with_wrong_values_fails_alone():
    async def scenario(batcher):
        return await asyncio.gather(
            ask(batcher, 1.0), ask(batcher, -1.0), ask(batcher, 3.0), return_exceptions=True
        )

    first, second, third = run(Model(), BatchLimits(), scenario)
    assert (first, third) == ([2.0], [6.0])
    assert isinstance(second, InvalidRequest)


def test_a_failure_of_the_model_reaches_each_request_once():
    calls = []

    def broken(lane, inputs):
        calls.append(len(inputs["x"]))
        raise RuntimeError("device lost")

    async def scenario(batcher):
        return await asyncio.gather(ask(batcher, 1.0), ask(batcher, 2.0), return_exceptions=True)

    errors = run(broken, BatchLimits(), scenario)
    assert all(isinstance(error, Internal) and "device lost" in str(error) for error in errors)
    assert calls == [2]


def test_a_model_that_answers_in_another_length_is_an_error_and_not_a_mix_up():
    def short(lane, inputs):
        return {"y": inputs["x"][:1]}

    async def scenario(batcher):
        return await asyncio.gather(ask(batcher, 1.0), ask(batcher, 2.0), return_exceptions=True)

    assert all(isinstance(error, Internal) for error in run(short, BatchLimits(), scenario))


def test_a_request_that_gave_up_in_the_queue_is_not_computed():
    gate = threading.Event()
    model = Model(gate)

    async def scenario(batcher):
        first = asyncio.ensure_future(ask(batcher, 1.0))
        await settle()
        second = asyncio.ensure_future(ask(batcher, 2.0, 3.0))
        await settle()
        second.cancel()
        gate.set()
        await first
        await settle()
        return batcher.queued

    assert run(model, BatchLimits(workers=1), scenario) == 0
    assert model.batches == [1]


def test_with_a_batch_timeout_the_first_waits_for_company_but_not_longer():
    model = Model()

    async def scenario(batcher):
        started_s = time.monotonic()
        first = asyncio.ensure_future(ask(batcher, 1.0))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, ask(batcher, 2.0))
        return time.monotonic() - started_s

    seconds = run(model, BatchLimits(batch_timeout_s=1.0), scenario)
    assert model.batches == [2]
    assert seconds >= 1.0


def test_a_full_batch_does_not_wait_for_the_timeout():
    async def scenario(batcher):
        started_s = time.monotonic()
        await ask(batcher, *range(32))
        return time.monotonic() - started_s

    assert run(Model(), BatchLimits(batch_timeout_s=60), scenario) < 30


def test_a_closed_batcher_refuses_what_runs_what_waits_and_what_comes():
    gate = threading.Event()

    async def scenario(batcher):
        asks = [asyncio.ensure_future(ask(batcher, 1.0)) for _ in range(2)]
        await settle()
        batcher.close()
        gate.set()
        return await asyncio.gather(*asks, ask(batcher, 3.0), return_exceptions=True)

    errors = run(Model(gate), BatchLimits(workers=1, max_batch=1), scenario)
    assert [type(error) for error in errors] == [Unavailable] * 3


def test_the_age_of_stuck_work_is_known():
    gate = threading.Event()

    async def scenario(batcher):
        assert batcher.oldest_s() == 0.0
        stuck = asyncio.ensure_future(ask(batcher, 1.0))
        await asyncio.sleep(0.2)
        age_s = batcher.oldest_s()
        gate.set()
        await stuck
        return age_s, batcher.oldest_s()

    age_s, after_s = run(Model(gate), BatchLimits(), scenario)
    assert 0.1 < age_s < 5.0
    assert after_s == 0.0
