"""The judges' checks in SQL, run by DuckDB over the same segments. They show what a good engine on
a single machine needs.

Loss, duplication, phantoms and marks are found by a full join of the messages sent and delivered;
order, windows and silences by window functions over each connection. Headers are looked up in their
stored lists.
"""

from pathlib import Path

import duckdb

_HEADER = "list_extract(list_filter(headers, lambda h: h.name = '{name}'), 1).value"
_STAMP = (
    "CAST(substr(decode(body), 5, 8) AS BIGINT) AS producer, CAST(substr(decode(body), 14, 12) AS"
    " BIGINT) AS number"
)


def _header(name: str) -> str:
    return _HEADER.format(name=name)


def _events(folder: Path) -> str:
    return f"read_parquet('{folder}/part-*.parquet')"


def checks(folder: Path) -> dict[str, str]:
    """The queries by name; each returns one row with the number of anomalies."""
    events = _events(folder)
    stamp = _STAMP
    return {
        "messages": (
            f"""
            WITH sent AS (
                SELECT {_header("destination")} AS queue, {stamp}, count(*) AS times FROM {events}
                WHERE kind = 'FrameSent' AND command = 'SEND' GROUP BY ALL),
            got AS (
                SELECT {_header("destination")} AS queue, {stamp}, count(*) AS times,
                    count(*) FILTER ({_header("redelivered")} = 'true') AS marked FROM {events}
                WHERE kind = 'FrameReceived' AND command = 'MESSAGE' GROUP BY ALL)
            SELECT count(*) FROM sent FULL JOIN got USING (queue, producer, number)
            WHERE sent.times IS DISTINCT FROM 1 OR got.times IS DISTINCT FROM 1 OR got.marked > 0"""
        ),
        "order": (
            f"""
            WITH got AS (
                SELECT conn, {_header("subscription")} AS subscription, {_header("destination")} AS queue, {stamp}, seq
                FROM {events} WHERE kind = 'FrameReceived' AND command = 'MESSAGE'),
            behind AS (
                SELECT number <= lag(number) OVER (
                    PARTITION BY conn, subscription, queue, producer ORDER BY seq) AS wrong FROM got)
            SELECT count(*) FROM behind WHERE wrong"""  # noqa: E501
        ),
        "windows": (
            f"""
            WITH asked AS (
                SELECT conn, {_header("id")} AS subscription, {_header("ack")} AS mode,
                    CAST({_header("consumer-window-size")} AS BIGINT) AS size_
                FROM {events} WHERE command = 'SUBSCRIBE'),
            got AS (
                SELECT conn, {_header("subscription")} AS subscription, {_header("ack")} AS token, size, seq
                FROM {events} WHERE kind = 'FrameReceived' AND command = 'MESSAGE'),
            settled AS (
                SELECT got.conn, got.subscription, -got.size AS change, answer.seq, false AS delivery
                FROM (SELECT conn, {_header("id")} AS token, seq FROM {events}
                    WHERE kind = 'FrameSent' AND command = 'ACK') AS answer
                JOIN got ON got.conn = answer.conn AND got.token = answer.token),
            moves AS (
                SELECT conn, subscription, size AS change, seq, true AS delivery FROM got UNION ALL SELECT * FROM settled),
            held AS (
                SELECT conn, subscription, delivery, sum(change) OVER (
                    PARTITION BY conn, subscription ORDER BY seq ROWS UNBOUNDED PRECEDING) - change AS before FROM moves)
            SELECT count(*) FROM held JOIN asked USING (conn, subscription)
            WHERE delivery AND size_ > 0 AND before >= size_"""  # noqa: E501
        ),
        "silences": (
            f"""
            WITH heard AS (
                SELECT conn, at_ns - lag(at_ns) OVER (PARTITION BY conn ORDER BY seq) AS silence FROM {events}
                WHERE kind IN ('FrameReceived', 'HeartBeatReceived')),
            longest AS (SELECT conn, max(silence) AS silence FROM heard GROUP BY conn),
            ended AS (SELECT conn, min(at_ns) AS at_ns FROM {events} WHERE kind = 'ConnectionClosed' GROUP BY conn),
            spoken AS (
                SELECT conn, max(at_ns) AS at_ns FROM {events}
                WHERE kind IN ('FrameSent', 'HeartBeatSent') GROUP BY conn)
            SELECT count(*) FILTER (ended.at_ns - spoken.at_ns < 1950000000)
            FROM longest LEFT JOIN ended USING (conn) LEFT JOIN spoken USING (conn)"""  # noqa: E501
        ),
    }


def run(folder: Path, *, threads: int, memory: str, scratch: Path) -> dict[str, int]:
    """Return the number of anomalies that each check finds."""
    with duckdb.connect(
        config={"threads": threads, "memory_limit": memory, "temp_directory": str(scratch)}
    ) as engine:
        anomalies = {}
        for name, query in checks(folder).items():
            row = engine.execute(query).fetchone()
            assert row is not None
            anomalies[name] = int(row[0] or 0)
        return anomalies
