from __future__ import annotations

import pytest

from stratalog.config.quorum import Endpoint, parse_endpoint, read_quorum_settings
from stratalog.errors import ConfigError

# The server.properties that Kafka 4.3.1 ships, without its comments and what is not about the quorum.
SHIPPED = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
log.dirs=/tmp/kraft-combined-logs
"""


def test_the_file_that_kafka_ships_is_read() -> None:
    found = read_quorum_settings(SHIPPED)

    assert (found.node_id, found.roles, found.voters) == (1, {"broker", "controller"}, ())
    assert found.endpoints == (Endpoint("CONTROLLER", "localhost", 9093),)


def test_a_controller_that_is_not_advertised_listens_where_it_is_bound() -> None:
    text = """
        listeners=A://:1,C://10.0.0.1:9,D://:7
        advertised.listeners=A://x:1
        controller.listener.names=C, D
    """

    assert read_quorum_settings(text).endpoints == (
        Endpoint("C", "10.0.0.1", 9),
        Endpoint("D", "localhost", 7),
    )


def test_voters_in_the_settings_are_read() -> None:
    text = "node.id=2\ncontroller.quorum.voters=1@a:9093,2@[::1]:9093\n"

    assert read_quorum_settings(text).voters == (1, 2)


def test_a_file_of_zookeepers_time_has_nothing_of_it() -> None:
    found = read_quorum_settings("broker.id=3\nzookeeper.connect=localhost:2181\n")

    assert (found.node_id, found.roles, found.voters, found.endpoints) == (3, frozenset(), (), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node.id=one", "node.id = one"),
        ("node.id=2147483648", "from 0 to 2147483647"),
        ("controller.quorum.voters=localhost:9093", "each must be id@host:port"),
        ("listeners=PLAINTEXT:9092", "each must be listener://host:port"),
        ("listeners=PLAINTEXT://:99999", "each must be listener://host:port"),
    ],
)
def test_what_a_broker_refuses_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_quorum_settings(text)


def test_an_endpoint_is_given_with_or_without_its_listener() -> None:
    assert parse_endpoint("kafka-1:9093") == Endpoint("CONTROLLER", "kafka-1", 9093)
    assert parse_endpoint("KRAFT://[::1]:9093") == Endpoint("KRAFT", "::1", 9093)
    assert parse_endpoint("KRAFT://[::1]:9093").address == "[::1]:9093"
    assert parse_endpoint("kafka-1:9093").address == "kafka-1:9093"
    for text in ("kafka-1", ":9093", "kafka-1:0", "kafka-1:70000"):
        with pytest.raises(ConfigError, match="it must be host:port"):
            parse_endpoint(text)
