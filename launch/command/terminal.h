// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Whether this process prints to a terminal.
namespace hetpipe {

// Standard output ends at a terminal: then a live progress line makes sense. mpirun gives each rank
// a pseudo-terminal of its own whatever its own standard output is, so that isatty() alone would
// write escape codes into files: under mpirun the answer is that of mpirun's standard output. False
// whenever it cannot be known (mpirun on another host, a terminal without cursor movement).
bool people_watch();

// Width of a line on standard output: that of its terminal, else COLUMNS, else 100.
int line_width();

// Lines of the terminal that standard output is; 24 where it is none.
int terminal_rows();

// Text wrapped into lines of at most `width`, each after the first indented.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace hetpipe
