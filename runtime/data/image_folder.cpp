// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/data/image_source.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// What a folder holds, sorted by name; hidden entries left out.
struct Entries {
  std::vector<fs::path> folders, files;
};

Entries entries_of(const fs::path& folder) {
  Entries entries;
  std::error_code error;
  fs::directory_iterator place(folder, error);
  for (; !error && place != fs::directory_iterator(); place.increment(error)) {
    if (place->path().filename().string().starts_with('.')) continue;
    std::error_code unknown_kind;  // a dangling link is reported when it is read
    const bool is_folder = place->is_directory(unknown_kind);
    (is_folder ? entries.folders : entries.files).push_back(place->path());
  }
  if (error) {
    throw UserError(folder.string(), "cannot be listed (" + error.message() +
                                         "). Check the path and its permissions.");
  }
  const auto by_name = [](const fs::path& a, const fs::path& b) {
    return a.filename().string() < b.filename().string();
  };
  std::sort(entries.folders.begin(), entries.folders.end(), by_name);
  std::sort(entries.files.begin(), entries.files.end(), by_name);
  return entries;
}

// Names lie one after another: a folder may hold millions.
class FolderSource final : public ImageSource {
 public:
  void add(const fs::path& folder, const std::string& name, int label) {
    if (folders_.empty() || folders_.back() != folder) folders_.push_back(folder);
    images_.push_back({names_.size(), static_cast<std::uint32_t>(folders_.size() - 1),
                       static_cast<std::uint32_t>(name.size())});
    names_ += name;
    labels_.push_back(label);
  }
  StoredImage fetch(std::int64_t index) const override { return read_file(name(index)); }
  std::string name(std::int64_t index) const override {
    const Place& of = images_[static_cast<std::size_t>(index)];
    return (folders_[of.folder] / names_.substr(of.name, of.length)).string();
  }
  std::int64_t held_bytes() const override {
    return static_cast<std::int64_t>(names_.size() + images_.size() * sizeof(Place));
  }

 private:
  struct Place {
    std::size_t name;
    std::uint32_t folder, length;
  };
  std::vector<fs::path> folders_;
  std::string names_;
  std::vector<Place> images_;
};

// The images of one split, labelled by the place of their folder's name among `names`.
std::unique_ptr<FolderSource> read_split(const fs::path& folder, const Entries& entries,
                                         const std::vector<std::string>& names,
                                         std::vector<fs::path>& ignored, Problems& problems) {
  auto source = std::make_unique<FolderSource>();
  ignored.insert(ignored.end(), entries.files.begin(), entries.files.end());
  for (const fs::path& place : entries.folders) {
    const auto found = std::lower_bound(names.begin(), names.end(), place.filename().string());
    if (found == names.end() || *found != place.filename().string()) {
      problems.add(place.string(),
                   "is a class that train/ does not have (labels are those of train/). "
                   "Add it there, or remove it here.");
      continue;
    }
    const Entries inside = entries_of(place);
    for (const fs::path& deeper : inside.folders) {
      problems.add(deeper.string(),
                   "is a folder inside a class (images lie directly in the folder "
                   "of their class). Move its images up, or remove it.");
    }
    bool any = false;
    for (const fs::path& file : inside.files) {
      if (is_image_name(file)) {
        source->add(place, file.filename().string(), static_cast<int>(found - names.begin()));
        any = true;
      } else {
        ignored.push_back(file);
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

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

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
    sources.ignored = top.files;
    for (const fs::path& other : top.folders) {
      if (other.filename() == "train" || other == tests) continue;
      problems.add(other.string(),
                   "is a folder next to train/ (only train/ and test/ or val/ are read). "
                   "Rename or remove it.");
    }
  }
  const fs::path train = grouped ? folder / "train" : folder;
  const Entries classes = grouped ? entries_of(train) : top;
  for (const fs::path& place : classes.folders) {
    sources.class_names.push_back(place.filename().string());
  }
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
