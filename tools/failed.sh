#!/bin/bash
# The list of failures, for readers who see only the end of a run: a file that $PERF_FAILED names, with a line for each failure:
# tier, interpreter, file:line, spec and message with tabs between them.
#
#   tools/failed.sh add TIER INTERPRETER PLACE NAME <MESSAGE    adds a failure, if $PERF_FAILED is set
#   tools/failed.sh list [FILE]                                 prints a short list: 25 lines, about 2500 characters
#
# A spec that failed on several interpreters is one line of the list.
set -u
case ${1:-} in
add)
    [ -n "${PERF_FAILED:-}" ] || exit 0
    message=$(tr -s '[:space:]' ' ' | cut -c 1-200)
    printf '%s\t%s\t%s\t%s\t%s\n' "$2" "$3" "$4" "$5" "$message" >>"$PERF_FAILED"
    ;;
list)
    awk -F '\t' '
        {
            key = $1 FS $3 FS $4
            if (!(key in luas)) {
                keys[++n] = key
                sub(/^spec\//, "", $3)
                tier[key] = $1; place[key] = $3; name[key] = $4; message[key] = $5
            }
            if ($2 != "" && !seen[key, $2]++) luas[key] = luas[key] (luas[key] == "" ? "" : ",") $2
            else luas[key] = luas[key] ""
        }
        END {
            most = n > 25 ? 25 : n
            width = most ? int(2500 / most) : 0
            if (width > 300) width = 300
            for (i = 1; i <= most; i++) {
                key = keys[i]
                line = tier[key] (luas[key] == "" ? "" : " " luas[key]) (place[key] == "" ? "" : " " place[key])
                # At least a third of the line is for the message.
                rest = length(message[key]) < width / 3 ? length(message[key]) : int(width / 3)
                line = substr(line " " name[key], 1, width - rest)
                print "  " substr(line ": " message[key], 1, width)
            }
            if (n > most) printf "  and %d more\n", n - most
        }' "${2:-$PERF_FAILED}"
    ;;
*)
    echo "tools/failed.sh: add or list" >&2
    exit 2
    ;;
esac
