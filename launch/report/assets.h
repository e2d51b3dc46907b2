// SPDX-License-Identifier: Apache-2.0
#pragma once

// The page's style sheet and scripts: style.css, script.js and what_if.js of this folder, as the
// build found them.
namespace hetpipe {

extern const char* const kReportStyle;
extern const char* const kReportScript;
extern const char* const kWhatIfScript;  // of pages with a simulator

}  // namespace hetpipe
