"""Packet captures: turns capture files into TCP connections, and the connections into a trace like
that of a live recording.

This package only reads files, so it needs no root rights, network interface or other programs.
``pcap_files`` reads containers, ``tcp_packets`` single packets; ``packet_order`` sorts the packets
of several files, ``reassembly`` builds streams from them, ``protocol_detection`` identifies the
protocol, ``protocol_decoding`` decodes it, and ``conversion`` combines these steps."""
