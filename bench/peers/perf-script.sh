#!/bin/sh
# perf script as a contestant: the file that mk/bench.mk recorded, as a whole process.
#
#   perf-script.sh FILE ROW
file=$1
if [ "${2#data}" = "$2" ]; then
    echo "none not measured for perf script"
    exit 0
fi
if [ ! -e "$file" ]; then
    echo "none no perf.data file was recorded"
    exit 0
fi
samples=$(perf script -F time -i "$file" 2>/dev/null | wc -l)
[ "$samples" -gt 0 ] || { echo "none perf script finds no sample"; exit 0; }
echo ready
while read -r n && [ "$n" -gt 0 ]; do
    start=$(date +%s%N)
    perf script -F tid,time,ip,addr -i "$file" >/dev/null 2>&1
    end=$(date +%s%N)
    awk "BEGIN { printf \"%.0f\\n\", ($end - $start) * $n / $samples }"
done
