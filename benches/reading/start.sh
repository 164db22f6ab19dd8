#!/bin/bash
# Starts the server of one role of a multi-node deployment. Of the size and shape of the scripts that KServe renders
# into a container; written for this bench.
set -euo pipefail

log() {
  echo "[start] $1"
}

fail() {
  log "error: $1"
  exit 1
}

ROLE="${ROLE:-leader}"
MODEL_DIR="${MODEL_DIR:-/mnt/models}"
SERVED_NAME="${SERVED_NAME:-chat}"
TENSOR="${TENSOR_PARALLEL_SIZE:-2}"
PIPELINE="${PIPELINE_PARALLEL_SIZE:-1}"
DATA="${DATA_PARALLEL_SIZE:-1}"
PORT="${PORT:-8000}"
EXTRA="${VLLM_ADDITIONAL_ARGS:-}"
WORLD=$(( TENSOR * PIPELINE ))

if [ -z "${HF_HOME:-}" ]; then
  export HF_HOME="/cache/hf"
fi

if [ -z "${VLLM_CACHE_ROOT:-}" ]; then
  export VLLM_CACHE_ROOT="/cache/vllm"
fi

if [ -z "${TRITON_CACHE_DIR:-}" ]; then
  export TRITON_CACHE_DIR="/cache/triton"
fi

if [ -z "${NCCL_DEBUG:-}" ]; then
  export NCCL_DEBUG="WARN"
fi

if [ -z "${NCCL_SOCKET_IFNAME:-}" ]; then
  export NCCL_SOCKET_IFNAME="eth0"
fi

if [ -z "${GLOO_SOCKET_IFNAME:-}" ]; then
  export GLOO_SOCKET_IFNAME="eth0"
fi

if [ -z "${UCX_TLS:-}" ]; then
  export UCX_TLS="all"
fi

mkdir -p "$HF_HOME" "$VLLM_CACHE_ROOT" "$TRITON_CACHE_DIR"
cat > /tmp/engine.yaml <<EOF
served-model-name: ${SERVED_NAME}
max-model-len: 16384
max-num-seqs: 64
enable-prefix-caching: true
kv-cache-dtype: auto
EOF

ARGS=(
  --config /tmp/engine.yaml
  --host 0.0.0.0
  --port "$PORT"
  --tensor-parallel-size "$TENSOR"
  --pipeline-parallel-size "$PIPELINE"
  --gpu-memory-utilization 0.85
)

if [ -n "${QUANTIZATION:-}" ]; then
  log "quantization is ${QUANTIZATION}"
  ARGS+=(--quantization "${QUANTIZATION}")
fi

if [ -n "${DTYPE:-}" ]; then
  log "dtype is ${DTYPE}"
  ARGS+=(--dtype "${DTYPE}")
fi

if [ -n "${TOOL_PARSER:-}" ]; then
  log "tool_parser is ${TOOL_PARSER}"
  ARGS+=(--tool-call-parser "${TOOL_PARSER}")
fi

if [ -n "${CHAT_TEMPLATE:-}" ]; then
  log "chat_template is ${CHAT_TEMPLATE}"
  ARGS+=(--chat-template "${CHAT_TEMPLATE}")
fi

if [ -n "${TOKENIZER:-}" ]; then
  log "tokenizer is ${TOKENIZER}"
  ARGS+=(--tokenizer "${TOKENIZER}")
fi

if [ -n "${SEED:-}" ]; then
  log "seed is ${SEED}"
  ARGS+=(--seed "${SEED}")
fi

if [[ "$DATA" -gt 1 ]]; then
  ARGS+=(--data-parallel-size "$DATA")
  ARGS+=(--data-parallel-address "${LWS_LEADER_ADDRESS:-127.0.0.1}")
fi

wait_for() {
  for attempt in 1 2 3 4 5; do
    if curl -sf "http://$1:8080/ready" > /dev/null; then
      return 0
    fi
    sleep 2
  done
  fail "$1 is not ready"
}

case "$ROLE" in
  leader)
    log "leads $WORLD ranks"
    ;;
  worker)
    log "joins"
    ;;
  *)
    fail "role $ROLE is not known"
    ;;
esac

# Step 1: what follows is logged.
log "step 1 of ${ROLE}: $(date)" || true

# Step 2: what follows is logged.
log "step 2 of ${ROLE}: $(date)" || true

# Step 3: what follows is logged.
log "step 3 of ${ROLE}: $(date)" || true

# Step 4: what follows is logged.
log "step 4 of ${ROLE}: $(date)" || true

# Step 5: what follows is logged.
log "step 5 of ${ROLE}: $(date)" || true

# Step 6: what follows is logged.
log "step 6 of ${ROLE}: $(date)" || true

# Step 7: what follows is logged.
log "step 7 of ${ROLE}: $(date)" || true

# Step 8: what follows is logged.
log "step 8 of ${ROLE}: $(date)" || true

# Step 9: what follows is logged.
log "step 9 of ${ROLE}: $(date)" || true

# Step 10: what follows is logged.
log "step 10 of ${ROLE}: $(date)" || true
# …
# …

log "starts with ${#ARGS[@]} arguments"
exec vllm serve "$MODEL_DIR" \
  "${ARGS[@]}" \
  --enable-auto-tool-choice \
  --disable-log-requests \
  $EXTRA
