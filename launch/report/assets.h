// SPDX-License-Identifier: Apache-2.0
#pragma once

// The page's style sheet and script: style.css and script.js of this folder, as the build found
// them.
namespace hetpipe {

extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace hetpipe
