// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

// How a test waits. Nothing of its outcome may follow from how fast its machine is: it waits for
// what has to happen, and gives up only so that something that hangs has a name.
namespace hetpipe::test {

// Seconds after which to give up what takes a usual machine so long: HETPIPE_TEST_PACE (10) times
// that.
double patience(double usual_seconds);

// Looks every 2 ms until the condition holds; false: it did not, within patience(usual_seconds).
bool comes_true(const std::function<bool()>& condition, double usual_seconds = 10);

// A deadline tells what is lost from what is late, and how late a sound answer may come depends on
// the machine: plays with longer and longer ones, up to patience(seconds), until `sound` holds of
// what was played.
template <class Play, class Sound>
auto with_longer_deadlines(double seconds, const Play& play, const Sound& sound) {
  for (double deadline = seconds;; deadline *= 3) {
    auto played = play(deadline);
    if (sound(played) || deadline > patience(seconds)) return played;
  }
}

}  // namespace hetpipe::test
