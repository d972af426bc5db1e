"""A pytest plugin for the processes that ``brokerproof run`` starts, in which no tests but
conformance cases run."""

from __future__ import annotations

from brokerproof.harness.trace.without_pandas import leave_pandas_out

leave_pandas_out()
