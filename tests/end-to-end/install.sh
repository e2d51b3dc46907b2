#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD_DIR
# `cmake --install` into a folder that is then moved: the program runs from there and finds what was installed with it;
# manual pages and completion name what --help names, no more and no less.
set -uo pipefail
export LC_ALL=C
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HETPIPE_CACHE=$folder/cache
failed=0
fail() { echo "FAILED: $*"; failed=1; }

cmake --install "$build" --prefix "$folder/prefix" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
prefix="$folder/another place"
mv "$folder/prefix" "$prefix"
hetpipe=$prefix/bin/hetpipe
share=$prefix/share
cd "$folder" || exit 1

# --- programs and what they find ------------------------------------------------------------------------
"$hetpipe" --version > version || fail "--version"
for module in cuda nccl; do
  installed=$(find "$prefix" -name "hetpipe_$module.so")
  if [ -e "$build/lib/hetpipe_$module.so" ]; then
    [ -n "$installed" ] || fail "the module for $module was built, but not installed"
  elif [ -n "$installed" ]; then
    fail "the module for $module was not built, and is installed: $installed"
  fi
done
if [ -e "$build/lib/hetpipe_cuda.so" ] && grep '^device cuda: not part of this build' version; then
  fail "the program does not find its CUDA module"
fi

shipped=$share/hetpipe/cluster-configs
"$hetpipe" plan --cluster "$shipped/lab-drawer.toml" --profile "$shipped/profiles/vgg19.toml" --output plan.toml > plan.txt ||
  fail "no plan of a shipped cluster with a shipped profile"
grep -q 'predicted throughput' plan.txt || fail "no prediction: $(cat plan.txt)"

"$hetpipe" train --recipe gpt2-nano --data text:t --cluster c.toml --print-config > recipe.txt || fail "no recipe is found"
grep -q '^minibatch = 12$' recipe.txt || fail "another recipe: $(cat recipe.txt)"
[ -e "$share/hetpipe/recipes/imagenet-resnet50.toml" ] && [ -z "$(find "$share/hetpipe/recipes" -name '*.cpp')" ] ||
  fail "installed as recipes: $(ls "$share/hetpipe/recipes")"

"$prefix/bin/hetpipe-supervise" --help | grep -q -- '--hosts FILE' || fail "hetpipe-supervise --help"
if [ -d /usr/share/datasets/fashion-mnist ]; then
  # Measured and planned, but not trained.
  mkdir double trial
  printf '#!/bin/bash\necho "mpirun $*"\n' > double/mpirun
  chmod +x double/mpirun
  (cd trial && PATH=$folder/double:$PATH "$prefix/bin/hetpipe-quickstart" --epochs 0.2) > quickstart.txt 2>&1 || fail "hetpipe-quickstart: $(cat quickstart.txt)"
  tail -n 1 quickstart.txt | grep -q "^mpirun .* hetpipe train .*another place/share/hetpipe/cluster-configs/.* --epochs 0.2" ||
    fail "hetpipe-quickstart would not train: $(cat quickstart.txt)"
fi
for file in README.md CHANGELOG.md LICENSE docs/files.md; do
  [ -s "$share/doc/hetpipe/$file" ] || fail "there is no $file among the documents"
done

# --- commands and options, as --help lists them -----------------------------------------------------------
words_of() { "$hetpipe" "$@" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'; } # subcommands, or a subcommand's actions
options_of() { "$hetpipe" "$@" --help | grep -oE '^  --[a-z-]+' | tr -d ' ' | sort; }
commands=() # "plan", "checkpoint info"
groups=()
for subcommand in $(words_of); do
  if "$hetpipe" "$subcommand" --help | grep -q '^usage: .* <action>'; then
    groups+=("$subcommand")
    for action in $(words_of "$subcommand"); do commands+=("$subcommand $action"); done
  else
    commands+=("$subcommand")
  fi
done
[ ${#commands[@]} -ge 10 ] || fail "--help lists these commands alone: ${commands[*]}"
same() { # WHAT IS SHOULD
  [ "$2" = "$3" ] || fail "$1: $(diff <(echo "$2") <(echo "$3"))"
}

# --- manual pages ---------------------------------------------------------------------------------------
pages=$share/man/man1
for command in "${commands[@]}"; do
  page=$pages/hetpipe-${command// /-}.1
  named=$(sed -n 's/^\\fB\(\\-\\-[a-z\\-]*\)\\fR.*/\1/p' "$page" | tr -d '\\' | sort)
  same "$page" "$named" "$(options_of $command)"
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' FILES 'SEE ALSO'; do
    grep -qx "\.SH $section" "$page" || fail "$page has no section $section"
  done
done
for group in "${groups[@]}"; do
  same "hetpipe-$group.1" "$(grep -A 1 '^\.TP' "$pages/hetpipe-$group.1" | sed -n "s/^\.BR hetpipe-$group-\([a-z]*\) (1)/\1/p")" \
    "$(words_of "$group")"
done
same hetpipe.1 "$(grep -A 1 '^\.TP' "$pages/hetpipe.1" | sed -n 's/^\.BR hetpipe-\([a-z]*\) (1)/\1/p')" "$(words_of)"
same "pages" "$(ls "$pages" | wc -l)" $((${#commands[@]} + ${#groups[@]} + 1))
for page in "$pages"/*.1; do
  if type -P man > /dev/null && man --help 2> /dev/null | grep -q -- --warnings; then
    said=$(man --warnings --local-file "$page" 2>&1 > rendered)
    [ -z "$said" ] || fail "man --warnings $page: $said"
    [ -s rendered ] || fail "man shows nothing of $page"
  fi
  if type -P mandoc > /dev/null; then
    said=$(mandoc -T lint -W style "$page") || fail "mandoc -T lint: $said"
  fi
done

# --- completion in bash ------------------------------------------------------------------------------------
script=$share/bash-completion/completions/hetpipe
# completed WORD...: what the last one can become; loaded as the package bash-completion does, from a function.
completed() {
  bash --norc -c 'load() { . "$1"; }; load "$1"; shift
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hetpipe; printf "%s\n" "${COMPREPLY[@]}"' bash "$script" hetpipe "$@"
}
same "complete -p" "$(bash --norc -c '. "$1"; complete -p hetpipe' bash "$script")" "complete -F _hetpipe hetpipe"
same "subcommands" "$(completed '')" "$(words_of; echo --help; echo --version)"
for group in "${groups[@]}"; do same "actions of $group" "$(completed "$group" '')" "$(words_of "$group"; echo --help)"; done
for command in "${commands[@]}"; do
  same "options of $command" "$(completed $command -- | sort)" "$(options_of $command)"
done
mkdir -p here/plans
touch here/plan.toml
(
  cd here || exit 1
  same "part of a subcommand" "$(completed pl)" plan
  same "part of an option" "$(completed plan --pol)" --policy
  same "a choice" "$(completed plan --policy e)" ed
  same "all choices" "$(completed train --transport '' | xargs)" "mpi threads"
  same "a choice behind =" "$(completed plan --policy = s)" search
  same "all choices behind =" "$(completed train --trace = | xargs)" "on off"
  same "a word that help lists" "$(completed train --system spec)" spectrain
  same "in a list" "$(completed compare --systems gpipe,tim)" gpipe,timeprest
  same "a model" "$(completed profile --model lenet- | xargs)" lenet-bn
  same "files" "$(completed simulate --plan pl | sort | xargs)" "plan.toml plans"
  same "folders" "$(completed train --output pl)" plans
  same "files and words" "$(completed train --cluster '' | sort | xargs)" "plan.toml plans ranks slurm"
  same "a word without a name" "$(completed checkpoint info plan.)" plan.toml
  same "a value that is anything" "$(completed train --epochs '')" ""
  same "behind --" "$(completed sbatch --time 1 -- --in-fl)" --in-flight
  exit $failed
) || failed=1

# --- completion in other shells, where they are --------------------------------------------------------------
if type -P fish > /dev/null; then
  fished() { HOME=$folder fish --no-config -c 'source $argv[1]; complete -C "hetpipe $argv[2]"' "$share/fish/vendor_completions.d/hetpipe.fish" "$1" | sed 's/\t.*//'; }
  same "fish: subcommands" "$(fished '' | sort)" "$(words_of | sort)"
  for command in "${commands[@]}"; do
    same "fish: options of $command" "$(fished "$command --" | sort)" "$(options_of $command)"
  done
  same "fish: a choice" "$(fished 'plan --policy e')" ed
fi
if type -P zsh > /dev/null; then
  zsh -n "$share/zsh/site-functions/_hetpipe" || fail "zsh cannot read its completion"
fi
exit $failed
