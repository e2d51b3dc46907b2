// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "partitioner/browser/answer.h"

// The one function of the WebAssembly module: text in, text out. The answer stays until the next
// call.
extern "C" const char* hetpipe_answer(const char* request) {
  static std::string answer;
  answer = hetpipe::browser_answer(request);
  return answer.c_str();
}
