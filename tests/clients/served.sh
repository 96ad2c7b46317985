# To be sourced: `serve SMELT FLAGS...` starts a server with the embedded model on a free port, for as long as the script
# runs. Exports SMELT_URL and SMELT_KEY.
command -v npm >/dev/null || { echo "$0: npm is missing; run tools/setup clients" >&2; exit 1; }

serve() {
  local smelt=$1 log
  shift
  log=$(mktemp)
  export SMELT_KEY=secret
  "$smelt" serve --port 0 --api-key "$SMELT_KEY" --alias tiny "$@" 2>"$log" &
  server=$!
  trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
  for _ in $(seq 300); do
    SMELT_URL=$(sed -n 's/.* at \(http[^,]*\),.*/\1/p' "$log")
    [ -z "$SMELT_URL" ] || break
    kill -0 $server 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
  done
  rm -f "$log"
  export SMELT_URL
}
