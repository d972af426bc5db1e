"""Captured packets: from files to TCP connections, from their bytes to the trace that a live
recording would have had.

Nothing here does more than read files: no root, no interface, no other program. ``pcap_files``
reads containers, ``tcp_packets`` the contents of a packet, ``packet_order`` puts the packets of
several files in order, ``reassembly`` makes streams of them, ``protocol_detection`` names their
protocol, ``protocol_decoding`` reads it, ``conversion`` is all of that together.
"""
