// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace hetpipe {

// HDF5 1.10.8 crashes, or never ends, on some files of which a byte has changed. `read` is what is
// about to be done with such a file: it is done first in a child of this process, by whose end it
// is judged. UserError naming the file when the child crashes or takes longer than `seconds`; what
// `read` throws there is left for its caller to meet. Call it with the store's lock (Session), so
// that no other thread is inside HDF5 when the child is made. SystemError if there can be no child.
void try_in_a_child(const std::string& file, double seconds, const std::function<void()>& read);

}  // namespace hetpipe
