"""Packet captures: turns capture files into TCP connections, and their bytes into the trace of a
live recording.

It only reads files, without root, network interface or other programs. ``pcap_files`` reads
containers, ``tcp_packets`` single packets; ``packet_order`` sorts the packets of several files,
``reassembly`` builds streams from them, ``protocol_detection`` identifies the protocol,
``protocol_decoding`` decodes it, and ``conversion`` combines these steps."""
