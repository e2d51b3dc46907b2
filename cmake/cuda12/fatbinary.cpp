// SPDX-License-Identifier: Apache-2.0
// Clang's last step for a CUDA source: one file of all that was compiled for each card, which the
// host's object embeds. The toolkit that launch/cuda12 lays out has NVIDIA's library for it and not
// the program; this is the program.
//
//   fatbinary -64 --create FILE --image=profile=sm_60,file=CUBIN...
//   --image=profile=compute_90,file=PTX...
//
// Nothing is compressed, so that every driver can read it; a bundle is compressed as a whole. Exit
// code 2: refused.
#include <nvFatbin.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "fatbinary: %s\n", why.c_str());
  std::exit(2);
}

void check(nvFatbinResult result, const std::string& doing) {
  if (result != NVFATBIN_SUCCESS) refuse(doing + ": " + nvFatbinGetErrorString(result));
}

// An --image: machine code for a card ("sm_60"), or PTX for it and newer ones ("compute_90").
struct Image {
  std::string profile, path;

  bool ptx() const { return profile.starts_with("compute_"); }
  std::string arch() const { return profile.substr(profile.find('_') + 1); }
};

Image image_of(std::string_view text) {
  Image image;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(','));
    text.remove_prefix(field.size() < text.size() ? field.size() + 1 : text.size());
    if (field.starts_with("profile=")) {
      image.profile = field.substr(8);
    } else if (field.starts_with("file=")) {
      image.path = field.substr(5);
    } else {
      refuse("--image has '" + std::string(field) + "' (must be profile=... or file=...)");
    }
  }
  if (!image.ptx() && !image.profile.starts_with("sm_")) {
    refuse("--image has profile '" + image.profile + "' (must be sm_N or compute_N)");
  }
  return image;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() || content.empty()) refuse(path + ": cannot be read, or is empty");
  return content;
}

void add(nvFatbinHandle fatbin, const Image& image) {
  const std::string content = content_of(image.path), doing = "adding " + image.path;
  if (image.ptx()) {
    check(nvFatbinAddPTX(fatbin, content.c_str(), content.size() + 1, image.arch().c_str(),
                         image.path.c_str(), ""),
          doing);
  } else {
    check(nvFatbinAddCubin(fatbin, content.data(), content.size(), image.arch().c_str(),
                           image.path.c_str()),
          doing);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string output;
  std::vector<Image> images;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "-64") continue;
    if (option == "--create" && i + 1 < argc) {
      output = argv[++i];
    } else if (option.starts_with("--image=")) {
      images.push_back(image_of(option.substr(8)));
    } else {
      refuse("unknown option '" + std::string(option) + "'");
    }
  }
  if (output.empty() || images.empty()) refuse("needs --create FILE and an --image at least");

  const char* options[] = {"-64", "-cuda", "-host=linux", "-compress=false"};
  nvFatbinHandle fatbin{};
  check(nvFatbinCreate(&fatbin, options, std::size(options)), "starting");
  for (const Image& image : images) add(fatbin, image);
  std::size_t bytes = 0;
  check(nvFatbinSize(fatbin, &bytes), "asking for the size");
  std::string all(bytes, '\0');
  check(nvFatbinGet(fatbin, all.data()), "writing");
  check(nvFatbinDestroy(&fatbin), "ending");
  std::ofstream file(output, std::ios::binary);
  file.write(all.data(), static_cast<std::streamsize>(all.size()));
  file.close();
  if (!file) refuse(output + ": cannot be written");
}
