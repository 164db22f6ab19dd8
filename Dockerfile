# syntax=docker/dockerfile:1
# A static binary in an empty image. Build for another platform with `docker buildx build --platform linux/arm64 …`, which
# runs this whole file there.
FROM rust:1.95-alpine AS build
# The C library and compiler, for the TLS library and the allocator.
RUN apk add --no-cache musl-dev gcc
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked --bin vramgate \
    && cp target/release/vramgate /vramgate \
    # Linked against nothing: the next stage holds nothing.
    && ! ldd /vramgate 2>/dev/null | grep -q '=>'

FROM scratch
COPY --from=build /vramgate /vramgate
# The user that the chart's pods run as.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/vramgate"]
CMD ["serve"]
