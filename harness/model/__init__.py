"""The shared vocabulary: time, enumerations, verdicts, findings, and what passes between a world
and a broker."""
