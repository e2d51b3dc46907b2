// SPDX-License-Identifier: Apache-2.0
// write_documentation FOLDER DATE: manual pages, dated DATE, and completion of hetpipe, below
// FOLDER as an installation has them below share/. The build runs it; it is not installed.
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "launch/documentation/completion.h"
#include "launch/documentation/manual.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  hetpipe::write_file(file, text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: write_documentation FOLDER DATE\n", stderr);
    return 2;
  }
  try {
    const fs::path folder = argv[1];
    const std::string date = argv[2];
    fs::remove_all(folder);  // pages of commands that there were
    const fs::path manual = folder / "man" / "man1";
    write(manual / "hetpipe.1", hetpipe::manual_of_hetpipe(date));
    hetpipe::for_each_command([&](const hetpipe::DocumentedCommand& command) {
      write(manual / (hetpipe::manual_name(command.name) + ".1"),
            hetpipe::manual_of(command, date));
    });
    write(folder / "bash-completion" / "completions" / "hetpipe", hetpipe::bash_completion());
    write(folder / "fish" / "vendor_completions.d" / "hetpipe.fish", hetpipe::fish_completion());
    write(folder / "zsh" / "site-functions" / "_hetpipe", hetpipe::zsh_completion());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
