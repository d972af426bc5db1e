"""Clients of the soak test by protocol name. They share no code with the broker."""

from brokerproof.suites.soak.clients.amqp091 import Amqp091Client
from brokerproof.suites.soak.clients.amqp10 import Amqp10Client
from brokerproof.suites.soak.clients.client import Client
from brokerproof.suites.soak.clients.core import CoreClient
from brokerproof.suites.soak.clients.openwire import OpenWireClient
from brokerproof.suites.soak.clients.stomp import StompClient

CLIENTS: dict[str, type[Client]] = {
    "stomp": StompClient,
    "amqp": Amqp10Client,
    "core": CoreClient,
    "openwire": OpenWireClient,
    "amqp091": Amqp091Client,
}
