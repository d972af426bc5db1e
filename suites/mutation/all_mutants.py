"""All mutants, by name, and the controls that stand beside them."""

from __future__ import annotations

from brokerproof.suites.mutation import controls
from brokerproof.suites.mutation.amqp import aftermath as amqp10_aftermath
from brokerproof.suites.mutation.amqp import (
    amqp091,
    amqp091_aftermath,
    amqp091_connections,
    amqp091_errors,
    amqp091_histories,
    amqp091_numbers,
    amqp091_settling,
    amqp091_topology,
    closed_links,
    connections,
    credit,
    numbers,
    opening,
    refused_messages,
    sessions,
    settlement,
    transfers,
)
from brokerproof.suites.mutation.flow import (
    alarms,
    check_interval,
    cluster,
    conservation,
    core_credit,
    core_histories,
    core_liveness,
    core_numbers,
    expiry,
    full_addresses,
    hindered,
    openwire,
    openwire_histories,
    openwire_numbers,
    paged_histories,
    paged_transactions,
    paging,
    places,
    producer_flow,
    queues,
    routing,
    stalled_readers,
    ttl,
    ttl_watch,
)
from brokerproof.suites.mutation.mutant import Group, Mutant
from brokerproof.suites.mutation.stomp import (
    acks,
    aftermath,
    connecting,
    disconnect,
    durable,
    errors,
    escapes,
    framing,
    framing_pieces,
    histories,
    limits,
    message_headers,
    nacks,
    negotiation,
    rabbitmq_heartbeats,
    receipts,
    redelivery,
    server_heartbeats,
    subscriptions,
    transactions,
    unlisted_frames,
    websockets,
    window_sizes,
    windows,
)
from brokerproof.suites.mutation.stomp import (
    numbers as stomp_numbers,
)
from brokerproof.suites.mutation.unseen import (
    after_errors,
    anonymous_producers,
    configuration,
    fairness,
    hindered_liveness,
    set_up,
    stalled_peers,
    transactions_and_flow,
    window_models,
)
from brokerproof.suites.mutation.unseen import amounts as unseen_amounts
from brokerproof.suites.mutation.unseen import combinations as unseen_combinations
from brokerproof.suites.mutation.unseen import conservation as unseen_conservation
from brokerproof.suites.mutation.unseen import limits as unseen_limits
from brokerproof.suites.mutation.unseen import numbers as unseen_numbers
from brokerproof.suites.mutation.unseen import paging as unseen_paging

GROUPS: tuple[Group, ...] = (
    amqp091.amqp091,
    amqp091_connections.amqp091_connections,
    amqp091_errors.amqp091_errors,
    amqp091_topology.amqp091_topology,
    amqp091_settling.amqp091_settling,
    amqp091_numbers.amqp091_numbers,
    alarms.alarms,
    cluster.cluster,
    framing.framing,
    framing_pieces.framing_pieces,
    unlisted_frames.unlisted_frames,
    escapes.escapes,
    negotiation.negotiation,
    connecting.connecting,
    ttl.ttl,
    ttl_watch.ttl_watch,
    server_heartbeats.beats,
    windows.windows,
    stomp_numbers.stomp_numbers,
    window_sizes.window_sizes,
    acks.acks,
    aftermath.aftermath,
    amqp10_aftermath.amqp10_aftermath,
    amqp091_aftermath.amqp091_aftermath,
    nacks.nacks,
    transactions.transactions,
    receipts.receipts,
    errors.errors,
    message_headers.message_headers,
    redelivery.redelivery,
    queues.queues,
    routing.routing,
    limits.limits,
    subscriptions.subscriptions,
    durable.durable,
    disconnect.disconnect,
    full_addresses.full_addresses,
    conservation.conservation,
    expiry.expiry,
    stalled_readers.stalled_readers,
    opening.amqp_opening,
    connections.amqp_connections,
    sessions.amqp_sessions,
    sessions.amqp_links,
    credit.amqp_credit,
    transfers.amqp_transfers,
    settlement.amqp_settlement,
    settlement.amqp_transactions,
    closed_links.closed_links,
    refused_messages.refused_messages,
    numbers.amqp_numbers,
    websockets.websockets,
    core_credit.core_credit,
    core_liveness.core_liveness,
    paging.paging,
    openwire.openwire,
    check_interval.looks,
    rabbitmq_heartbeats.whole_seconds,
    producer_flow.full_places,
    producer_flow.usage_limits,
    producer_flow.no_space,
    producer_flow.no_space_later,
    amqp091_histories.amqp091_histories,
    openwire_histories.openwire_histories,
    core_histories.core_histories,
    core_numbers.core_numbers,
    hindered.hindered,
    hindered.hindered_amqp091,
    hindered.hindered_openwire,
    places.places,
    histories.histories,
    paged_histories.paged_histories,
    paged_transactions.paged_transactions,
    openwire_numbers.openwire_numbers,
    fairness.fairness,
    fairness.fairness_activemq,
    anonymous_producers.anonymous_producers,
    anonymous_producers.anonymous_publishers,
    configuration.configuration,
    configuration.configuration_amqp091,
    configuration.configuration_usage,
    set_up.set_up,
    set_up.set_up_amqp091,
    after_errors.after_errors,
    after_errors.after_errors_amqp091,
    after_errors.after_no_space_in_time,
    *unseen_numbers.GROUPS,
    *unseen_amounts.GROUPS,
    *unseen_combinations.GROUPS,
    *unseen_conservation.GROUPS,
    *unseen_paging.GROUPS,
    *unseen_limits.GROUPS,
    stalled_peers.stalled_peers,
    stalled_peers.stalled_peers_amqp091,
    stalled_peers.stalled_peers_openwire,
    hindered_liveness.hindered_liveness,
    hindered_liveness.liveness_amqp091,
    window_models.window_models,
    window_models.windows_amqp091,
    window_models.windows_openwire,
    transactions_and_flow.transactions_and_flow,
    transactions_and_flow.transactions_amqp091,
)

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for group in GROUPS for mutant in group.mutants}
CONTROLS: dict[str, Mutant] = {mutant.name: mutant for mutant in controls.controls.mutants}


def named(name: str) -> Mutant:
    """The mutant or control of that name. Raises ``ValueError`` with one sentence when there is
    none."""
    mutant = MUTANTS.get(name) or CONTROLS.get(name)
    if mutant is None:
        import difflib

        known = [*MUTANTS, *CONTROLS]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(
            f"there is no mutant {name!r}; "
            + (f"perhaps {', '.join(near)}" if near else "brokerproof mutants --list names them")
        )
    return mutant
