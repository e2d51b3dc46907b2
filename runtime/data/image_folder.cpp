// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/data/image_source.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Names of what a folder holds, sorted; hidden entries left out. A folder may hold millions, so
// none of them becomes a path.
struct Entries {
  std::vector<std::string> folders, files;
};

struct Closer {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Entries entries_of(const fs::path& folder) {
  const auto fail = [&] {
    throw UserError(folder.string(), std::string("cannot be listed (") + std::strerror(errno) +
                                         "). Check the path and its permissions.");
  };
  const std::unique_ptr<DIR, Closer> place(::opendir(folder.c_str()));
  if (!place) fail();
  Entries entries;
  for (errno = 0; const dirent* const entry = ::readdir(place.get()); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      std::error_code unknown_kind;  // a dangling link is reported when it is read
      is_folder = fs::is_directory(folder / name, unknown_kind);
    }
    (is_folder ? entries.folders : entries.files).emplace_back(name);
  }
  if (errno != 0) fail();
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

bool has_image_ending(std::string_view name) {
  const auto ends_in = [&](std::string_view ending) {
    return name.size() > ending.size() &&
           std::equal(ending.rbegin(), ending.rend(), name.rbegin(), [](char wanted, char c) {
             return wanted == std::tolower(static_cast<unsigned char>(c));
           });
  };
  return ends_in(".jpg") || ends_in(".jpeg") || ends_in(".png");
}

// Names lie one after another: a folder may hold millions.
class FolderSource final : public ImageSource {
 public:
  void add(const std::string& folder, const std::string& name, int label) {
    if (folders_.empty() || folders_.back() != folder) folders_.push_back(folder);
    images_.push_back({names_.size(), static_cast<std::uint32_t>(folders_.size() - 1),
                       static_cast<std::uint32_t>(name.size())});
    names_ += name;
    labels_.push_back(label);
  }
  StoredImage fetch(std::int64_t index) const override { return read_file(name(index)); }
  std::string name(std::int64_t index) const override {
    const Place& of = images_[static_cast<std::size_t>(index)];
    return folders_[of.folder] + '/' + names_.substr(of.name, of.length);
  }
  std::int64_t held_bytes() const override {
    return static_cast<std::int64_t>(names_.size() + images_.size() * sizeof(Place));
  }

 private:
  struct Place {
    std::size_t name;
    std::uint32_t folder, length;
  };
  std::vector<std::string> folders_;
  std::string names_;
  std::vector<Place> images_;
};

// The images of one split, labelled by the place of their folder's name among `names`.
std::unique_ptr<FolderSource> read_split(const fs::path& folder, const Entries& entries,
                                         const std::vector<std::string>& names,
                                         std::vector<fs::path>& ignored, Problems& problems) {
  auto source = std::make_unique<FolderSource>();
  for (const std::string& file : entries.files) ignored.push_back(folder / file);
  for (const std::string& name : entries.folders) {
    const fs::path place = folder / name;
    const auto found = std::lower_bound(names.begin(), names.end(), name);
    if (found == names.end() || *found != name) {
      problems.add(place.string(),
                   "is a class that train/ does not have (labels are those of train/). "
                   "Add it there, or remove it here.");
      continue;
    }
    const Entries inside = entries_of(place);
    for (const std::string& deeper : inside.folders) {
      problems.add((place / deeper).string(),
                   "is a folder inside a class (images lie directly in the folder "
                   "of their class). Move its images up, or remove it.");
    }
    bool any = false;
    for (const std::string& file : inside.files) {
      if (has_image_ending(file)) {
        source->add(place.string(), file, static_cast<int>(found - names.begin()));
        any = true;
      } else {
        ignored.push_back(place / file);
      }
    }
    if (!any && inside.folders.empty()) {
      problems.add(place.string(),
                   "holds no image (a class needs files that end in .jpg, .jpeg or "
                   ".png). Add some, or remove the folder.");
    }
  }
  if (entries.folders.empty()) {
    problems.add(folder.string(),
                 "holds no folders (each class is a folder of images). Give the "
                 "folder of the classes, or one with train/ and test/.");
  }
  return source;
}

}  // namespace

bool is_image_name(const fs::path& path) { return has_image_ending(path.filename().string()); }

fs::path find_image(const fs::path& folder) {
  constexpr int kMostEntries = 10000;
  constexpr int kDeepest = 2;  // FOLDER/train/CLASS/IMAGE
  std::error_code error;
  fs::recursive_directory_iterator place(folder, error);
  int seen = 0;
  for (; !error && place != fs::recursive_directory_iterator() && seen < kMostEntries;
       place.increment(error), ++seen) {
    if (place.depth() >= kDeepest) place.disable_recursion_pending();
    std::error_code unknown_kind;
    if (is_image_name(place->path()) && place->is_regular_file(unknown_kind)) return place->path();
  }
  return {};
}

bool is_image_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* ending : {"", ".gz"}) {
    for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte",
                             "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"}) {
      if (fs::exists(folder / (std::string(name) + ending), error)) return false;
    }
  }
  return fs::is_directory(folder, error) && !find_image(folder).empty();
}

fs::path test_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"test", "val"}) {
    if (fs::is_directory(folder / name, error)) return folder / name;
  }
  return {};
}

ImageSources open_image_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw UserError(folder.string(),
                    "is not a folder (it has to hold one folder of images per "
                    "class). Give such a folder.");
  }
  const bool grouped = fs::is_directory(folder / "train", error);
  const fs::path tests = test_folder(folder);
  const bool has_test = !tests.empty();
  Problems problems;
  if (has_test && !grouped) {
    throw UserError(folder.string(),
                    "holds " + tests.filename().string() +
                        "/ but no train/ (either both are needed, or only classes). Add train/, "
                        "or rename it if it is a class.");
  }
  ImageSources sources;
  const Entries top = entries_of(folder);
  if (grouped) {
    for (const std::string& file : top.files) sources.ignored.push_back(folder / file);
    for (const std::string& other : top.folders) {
      if (other == "train" || other == tests.filename()) continue;
      problems.add((folder / other).string(),
                   "is a folder next to train/ (only train/ and test/ or val/ are read). "
                   "Rename or remove it.");
    }
  }
  const fs::path train = grouped ? folder / "train" : folder;
  const Entries classes = grouped ? entries_of(train) : top;
  sources.class_names = classes.folders;
  sources.classes = static_cast<int>(sources.class_names.size());
  sources.train = read_split(train, classes, sources.class_names, sources.ignored, problems);
  if (has_test) {
    sources.test =
        read_split(tests, entries_of(tests), sources.class_names, sources.ignored, problems);
  }
  if (sources.classes == 1) {
    problems.add(train.string(), "holds one class, " + sources.class_names.front() +
                                     " (a classifier needs at least 2). Add another.");
  }
  problems.throw_if_any();
  return sources;
}

}  // namespace hetpipe
