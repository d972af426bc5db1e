# brokerproof as an image: docker run --network host -v "$PWD:/work" brokerproof run --target localhost:61613
FROM python:3.11-slim AS build
COPY . /source
RUN python -m venv /opt/brokerproof && /opt/brokerproof/bin/pip install --no-cache-dir /source

# The same base: a virtual environment names its interpreter by path.
FROM python:3.11-slim
RUN useradd --create-home judge && mkdir /work && chown judge /work
COPY --from=build /opt/brokerproof /opt/brokerproof
USER judge
WORKDIR /work
ENTRYPOINT ["/opt/brokerproof/bin/brokerproof"]
CMD ["--help"]
