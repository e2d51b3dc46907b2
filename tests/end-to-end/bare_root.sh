# SPDX-License-Identifier: Apache-2.0
# Sourced by bundle.sh, deb.sh and from_nothing.sh: file systems that have nothing of this machine's, and commands in them. They set
# `kind`, which messages begin with.
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "$*" >&2; exit 1; }

# Sets folder, and root, the file system to be made there.
in_folder_of_its_own() {
  [ "$(id -u)" -eq 0 ] || skip "a root file system is made and entered by root alone"
  unshare --mount true 2> /dev/null || skip "mount name spaces are not allowed here"
  folder=$(mktemp -d /tmp/bare-root.XXXXXX)
  trap 'rm -rf "$folder"' EXIT  # mounts are in the name space of the command that wanted them
  root=$folder/root
  chmod 755 "$folder"
}

# Sets mirror: the one of Debian that this machine's apt uses.
find_mirror() {
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(SUITE)|$(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
           sed -n 's/^Debian|[a-z]*|//p' | head -n 1)
  [ -n "$mirror" ] || skip "apt names no mirror of Debian here"
}

debootstrapped() { # WHAT OPTION... SUITE ROOT MIRROR [SCRIPT]
  local what=$1
  shift
  type -P debootstrap > /dev/null || skip "debootstrap is not installed"
  debootstrap --variant=minbase "$@" > "$folder/debootstrap.log" 2>&1 ||
    skip "debootstrap could not make $what: $(tail -n 1 "$folder/debootstrap.log")"
}

# Debian 12 in root, whose apt goes the way that this machine's goes.
debian_12() {
  debootstrapped "Debian 12" bookworm "$root" "$mirror"
  apt-config dump | grep -E '^Acquire::[a-z:]*::Proxy ' > "$root/etc/apt/apt.conf.d/90proxy" || true
}

# inside USER READ_ONLY_PATH COMMAND...: in the root, with an environment of its own; the path may be "".
inside() {
  unshare --mount --propagation private bash -c '
    set -e
    root=$1 user=$2 frozen=$3
    shift 3
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    [ -z "$frozen" ] || { mount --bind "$root$frozen" "$root$frozen"; mount -o remount,bind,ro "$root$frozen"; }
    exec env -i PATH=/usr/bin:/bin HOME=/tmp "$(type -P chroot)" --userspec="$user:$user" "$root" "$@"' \
    bash "$root" "$@"
}

# trained FILE PERCENT: what the quick start said ends with five ranks' training, and has learnt.
trained() {
  local accuracy
  grep -q ' with 5 ranks over Open MPI ' "$1" || { cat "$1"; fail "$kind: no run of 5 ranks"; }
  accuracy=$(sed -n 's/^evaluation after wave .*test accuracy \([0-9]*\)\.[0-9]* % (.* of 10000)$/\1/p' "$1" | tail -n 1)
  [ -n "$accuracy" ] || { cat "$1"; fail "$kind: no test accuracy"; }
  [ "$accuracy" -ge "$2" ] || { cat "$1"; fail "$kind: a test accuracy of $accuracy %, and not $2 % at least"; }
  echo "$kind: $(grep '^evaluation after wave' "$1" | tail -n 1)"
}
