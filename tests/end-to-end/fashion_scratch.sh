# SPDX-License-Identifier: Apache-2.0
# Sourced by tests on Fashion-MNIST: $folder, which goes at the end. Exit code 77 where the data is not there.
[ -d /usr/share/datasets/fashion-mnist ] || { echo "skipped: no Fashion-MNIST (package dataset-fashion-mnist)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
