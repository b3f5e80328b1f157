# Sourced by the shell of tests/documents.py with a port: servers that a page starts in a terminal of their own.
server_port=$1

# Waits until the job that was started last serves, as a frontend or as workers behind one, and asks a frontend once.
server() {
    server_pid=$!
    case $1 in
    workers) until find "$DYN_FILE_KV" -type f 2>/dev/null | grep -q .; do kill -0 "$server_pid"; sleep 0.2; done ;;
    frontend)
        until curl -sf "http://127.0.0.1:$server_port/health" >/dev/null; do kill -0 "$server_pid"; sleep 0.2; done
        model=$(curl -s "http://127.0.0.1:$server_port/v1/models" | sed 's/.*"id":"\([^"]*\)".*/\1/')
        curl -sN "http://127.0.0.1:$server_port/v1/chat/completions" -H 'Content-Type: application/json' -d '{
            "model": "'"$model"'", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20, "stream": true}' |
            grep -qF 'data: [DONE]'
        ;;
    esac
}

# Ends that server, if it has not ended.
end_server() {
    if [ -n "${server_pid-}" ]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" || true
        server_pid=
        rm -rf "$DYN_FILE_KV"
    fi
}
