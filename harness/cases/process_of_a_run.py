"""A pytest plugin for the processes of ``brokerproof run``: these run only conformance cases."""

from __future__ import annotations

from brokerproof.harness.trace.without_pandas import leave_pandas_out

leave_pandas_out()
