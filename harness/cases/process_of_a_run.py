"""A pytest plugin for the processes of ``brokerproof run``: these run only conformance cases."""

from brokerproof.harness.trace.without_pandas import leave_pandas_out

leave_pandas_out()
