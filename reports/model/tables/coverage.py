"""The requirements in the catalogue that the runs judged, and those that no case cites."""

import pyarrow as pa
import pyarrow.compute as pc


def coverage(catalogue: pa.Table, findings: pa.Table) -> pa.Table:
    """The catalogue with ``cases`` (those that cite it), ``judged`` (findings that held or were
    violated) and ``covered``.

    ``covered`` means that a finding on some target judged the requirement; being cited is not
    enough."""
    seen = pc.is_in(findings.column("seen"), value_set=pa.array(["HELD", "VIOLATED"]))
    unjudged = pc.is_in(findings.column("verdict"), value_set=pa.array(["SKIP", "ERROR"]))
    judged = pc.cast(pc.and_not(seen, unjudged), pa.int64())
    cited = (
        findings.select(["requirement", "case"])
        .append_column("judged", judged)
        .group_by("requirement", use_threads=False)
        .aggregate([("case", "count_distinct"), ("judged", "sum")])
    )
    place = pc.index_in(catalogue.column("requirement"), value_set=cited.column("requirement"))
    for name in ("case_count_distinct", "judged_sum"):
        catalogue = catalogue.append_column(
            name, pc.fill_null(pc.take(cited.column(name), place), 0)
        )
    catalogue = catalogue.rename_columns([*catalogue.column_names[:-2], "cases", "judged"])
    return catalogue.append_column("covered", pc.greater(catalogue.column("judged"), 0))
