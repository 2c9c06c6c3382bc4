"""The front door is believed when it answers, not when somebody says that it will."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.model import Endpoint
from opsctl.targets.kubernetes.proof import MUTE_MAX, STREAK, Proof


class Door:
    """A front door that answers from the releases in turn; "" has no name, None is a 503."""

    def __init__(self) -> None:
        self.turn: list[str | None] = ["r1"]
        self.asked = 0
        self.hosts: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                release = outer.turn[outer.asked % len(outer.turn)]
                outer.asked += 1
                outer.hosts.add(self.headers["Host"])
                self.send_response(404 if release is not None else 503)
                if release:
                    self.send_header("X-Opsctl-Release", release)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.server.server_port)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


def looks(door: Door, proof: Proof, weights: dict[str, int], most: int = 100) -> int:
    """How often the door is asked until it holds."""
    before = door.asked
    while not proof.holds(weights) and door.asked - before < most:
        continue
    return door.asked - before


def test_all_traffic_is_proved_by_answers_in_a_row(door: Door) -> None:
    proof = Proof(door.endpoint)
    assert looks(door, proof, {"r1": 100}) == STREAK
    assert looks(door, proof, {"r1": 100}) == 0


def test_an_answer_of_a_release_without_traffic_begins_the_count_again(door: Door) -> None:
    proof = Proof(door.endpoint)
    door.turn = [*["r2"] * 5, "r1", *["r2"] * 20]
    assert looks(door, proof, {"r2": 100}) == 6 + STREAK


def test_traffic_that_comes_back_is_proved_anew(door: Door) -> None:
    proof = Proof(door.endpoint)
    assert looks(door, proof, {"r1": 100}) == STREAK
    assert not proof.holds({"r2": 100})
    assert looks(door, proof, {"r1": 100}) == STREAK
    proof.forget()
    assert looks(door, proof, {"r1": 100}) == STREAK


def test_a_share_is_proved_once_its_release_has_answered(door: Door) -> None:
    proof = Proof(door.endpoint)
    door.turn = [*["r1"] * 19, "r2"]
    assert looks(door, proof, {"r1": 95, "r2": 5}) == 20


def test_a_door_that_has_nowhere_to_send_to_proves_nothing(door: Door) -> None:
    proof = Proof(door.endpoint)
    door.turn = [None]
    assert looks(door, proof, {"r1": 100}) == 100
    door.turn = ["r1"]
    assert looks(door, proof, {"r1": 100}) == STREAK


def test_answers_without_a_name_are_believed(door: Door) -> None:
    door.turn = [""]
    assert looks(door, Proof(door.endpoint), {"r1": 75, "r2": 25}) == STREAK


def test_an_answer_without_a_name_counts_for_nothing_where_others_have_one(door: Door) -> None:
    door.turn = ["r1", *[""] * 10, *["r1"] * 20]
    assert looks(door, Proof(door.endpoint), {"r1": 100}) == 11 + STREAK


def test_a_route_for_a_host_name_is_asked_by_that_name(door: Door) -> None:
    assert looks(door, Proof(door.endpoint, ("*.example.org",)), {"r1": 100}) == STREAK
    assert door.hosts == {"opsctl.example.org"}


def test_a_door_that_is_not_there_is_given_up(door: Door) -> None:
    def nowhere() -> Endpoint:
        raise TargetUnreachable("no address")

    proof = Proof(nowhere)
    held = [proof.holds({"r1": 100}) for _ in range(MUTE_MAX)]
    assert held == [*[False] * (MUTE_MAX - 1), True]
    assert proof.holds({"r2": 100})
    assert door.asked == 0


def test_without_traffic_nobody_is_asked(door: Door) -> None:
    assert Proof(door.endpoint).holds({})
    assert door.asked == 0


def test_a_release_that_was_adopted_need_not_say_its_name(door: Door) -> None:
    door.turn = ["", "r2"]
    proof = Proof(door.endpoint)
    weights = {"r1": 50, "r2": 50}
    assert proof.holds(weights, {"r1"})
    assert door.asked == STREAK
    # Without that knowledge an answer without a name comes from somebody else.
    unaware = Proof(door.endpoint)
    assert not any(unaware.holds(weights) for _ in range(4 * STREAK))
