"""AMQP 1.0 without sockets: bytes in, calls of the core, bytes out.

* ``types``, ``decoder``, ``encoder``: the type system (part 1).
* ``composite``, ``performatives``, ``messaging``, ``conditions``: types declared in tables (2.7,
  2.8, 3, 4.5, 5.3.3).
* ``framing``, ``headers``, ``sasl``: frames, versions, and the peer's identity (2.2, 2.3, 5.3).
* ``connection``, ``session``, ``link``: endpoints and their states; ``refusal``: the errors that
  end them (2.4 to 2.6).
* ``outgoing``, ``incoming``, ``delivery``: links bound to queues and addresses (2.6.7 to 2.6.14,
  3.4).
* ``producer_credit``: when producers get credit (a vendor's rule); ``terminus``: what an address
  means.
* ``coordinator``: transactions (part 4).
* ``message``, ``sending``: messages in and out (3.2); ``crossing``: conversion from and to STOMP;
  ``selecting``: selectors.
"""
