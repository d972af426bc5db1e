"""Captured packets: from files to TCP connections, from their bytes to the trace that a live
recording would have had.

Nothing here does more than read files: no root, no interface, no other program. ``files`` reads
containers, ``packets`` what is in a packet, ``series`` puts the packets of several files in order,
``reassembly`` makes streams of them, ``recognising`` says which protocol they carry, ``speaking``
reads it, ``conversion`` is all of that together.
"""
