# SPDX-License-Identifier: Apache-2.0
# transport_expect_exit.sh CODE TEXT COMMAND...: passes when the command ends with this code and says this text.
expected=$1
text=$2
shift 2
output=$("$@" 2>&1)
code=$?
printf '%s\n' "$output"
if [ "$code" -ne "$expected" ]; then
  echo "exit code $code, and $expected was expected"
  exit 1
fi
case $output in
  *"$text"*) exit 0 ;;
esac
echo "the output lacks: $text"
exit 1
