// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "launch/train/options.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "runtime/data/image.h"
#include "runtime/data/image_source.h"
#include "runtime/data/shards.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/dataset_writer.h"
#include "runtime/store/open_dataset.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/made_tar.h"
#include "tests/unit/store/sample_checkpoint.h"

// mutated_files FOLDER SOURCE_DIR [FILES [SEED [KIND]]]
// Reads FILES (default 2000) damaged copies of every kind of file that a user may give, each in a
// process of its own: it ends with 0 (read) or 2 (refused with a message) within a minute.
// Anything else is printed with its kind and number, the file is kept in FOLDER, and the exit code
// is 1.
namespace hetpipe {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t end) { return random() % end; }

// One to four changes: bits, bytes, words that readers look for, parts cut out, doubled or moved.
std::string mutated(std::string bytes, Random& random) {
  const std::vector<std::string> words{"-1",
                                       "1e999",
                                       "nan",
                                       "\"",
                                       "[",
                                       "]",
                                       "=",
                                       "\n",
                                       "0",
                                       std::string(8, '\0'),
                                       std::string(8, '\xff'),
                                       "99999999999"};
  for (std::size_t n = 1 + below(random, 4); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = below(random, bytes.size());
    const std::size_t length = 1 + below(random, std::min<std::size_t>(bytes.size() - at, 64));
    switch (below(random, 7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(below(random, bytes.size()), bytes.substr(at, length));
        break;
      case 5:
        bytes.replace(at, std::min(length, bytes.size() - at), words[below(random, words.size())]);
        break;
      default:
        for (std::size_t i = at; i < at + length; ++i) bytes[i] = static_cast<char>(random());
    }
  }
  return bytes;
}

struct Kind {
  std::string name;
  std::string file;                             // where its copies stand, below FOLDER
  std::string bytes;                            // of an intact file
  std::function<void(const fs::path&)> read{};  // of a copy
};

void read_configuration(const fs::path& file) {
  TrainOptions options;
  OptionTable table = train_option_table(options);
  Problems problems;
  const std::vector<std::string> words{"--config", file.string()};
  table.read(words, problems);
  problems.throw_if_any();
}

void read_images_of(const ImageSources& sources) {
  for (std::int64_t i = 0; i < sources.train->size(); ++i) sources.train->read(i);
}

void read_splits(const std::string& spec) {
  open_dataset(spec, Split::train, Parts::both);
  if (has_test_split(spec)) open_dataset(spec, Split::test, Parts::both);
}

// Wholly, and a part of it as transforms take one.
void read_image_of(const fs::path& file) {
  const StoredImage stored = read_file(file);
  try {
    read_image(file);
  } catch (const UserError&) {
    part_of(stored, file.string(), {3, 5, 10, 10}, {2, 2});
    throw;
  }
  part_of(stored, file.string(), {3, 5, 10, 10}, {2, 2});
}

void read_shards_of(const fs::path& file) {
  const std::string spec = "shards:" + file.string();
  read_images_of(open_shards(spec));
}

// The headers that the changes reach are read with the right checksums; images get some as well,
// and are no images then.
void read_shards_with_checksums(const fs::path& file) {
  const fs::path right = fs::path(file).replace_extension("right.tar");
  std::ofstream(right, std::ios::binary) << with_tar_checksums(read_file(file));
  open_shards("shards:" + right.string());
}

// Two samples, the name of one of them in a header of its own.
std::string shard_bytes() {
  const std::string folder = std::string(120, 'f') + "/";
  return tar_sample("a/1", jpeg_of(made_image(8, 8, 3)), "1", ".jpg") +
         tar_member("././@LongLink", folder + "2.png" + '\0', {.type = 'L'}) +
         tar_member("short", png_of(made_image(8, 8, 3))) +
         tar_member("pax", "136 path=" + folder + "2.cls\n", {.type = 'x'}) +
         tar_member("short", "0") + tar_end();
}

// Of three sequences in int32, and of their 40 tokens.
std::string megatron_bytes() {
  const auto bytes_of_values = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(values[0]));
  };
  return std::string("MMIDIDX\0\0", 9) + bytes_of_values(std::vector<std::uint64_t>{1}) + '\4' +
         bytes_of_values(std::vector<std::uint64_t>{3, 2}) +
         bytes_of_values(std::vector<std::int32_t>{10, 0, 30}) +
         bytes_of_values(std::vector<std::int64_t>{0, 40, 40}) +
         bytes_of_values(std::vector<std::int64_t>{0, 3});
}

std::string hdf5_bytes(const fs::path& file) {
  const std::vector<std::int32_t> labels{0, 1, 2, 1};
  DatasetWriter writer(file);
  for (const Split split : {Split::train, Split::test}) {
    writer.begin(split, 8, 8, 3, labels);
    for (int i = 0; i < 4; ++i) writer.append(made_image(8, 8, 3, i).pixels);
  }
  writer.commit(std::vector<std::string>{"a", "b", "c"});
  return read_file(file);
}

// Of four images of 6 x 5 pixels.
std::string idx_bytes(bool images) {
  std::string bytes{0, 0, 8, static_cast<char>(images ? 3 : 1), 0, 0, 0, 4};
  if (images) bytes += std::string{0, 0, 0, 6, 0, 0, 0, 5} + std::string(4 * 6 * 5, 'x');
  return images ? bytes : bytes + std::string{0, 1, 2, 1};
}

std::string checkpoint_bytes(const fs::path& file) {
  write_checkpoint(file, sample_checkpoint());
  return read_file(file);
}

std::vector<Kind> kinds_of(const fs::path& folder, const fs::path& source) {
  const std::string configuration =
      "format = 1\nmodel = \"lenet\"\ndata = \"fashion-mnist\"\nepochs = 2.5\n"
      "learning-rate = 0.003\nlr-steps = [1, 2]\nservers = [\"a\", \"b\"]\nexact = false\n";
  const std::string plan = to_toml(parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"m\"\nminibatch = 32\nin_flight = 2\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 2]\ndevices = [\"n0:0\"]\n"
      "[[virtual_worker.stage]]\nlayers = [2, 5]\ndevices = [\"n0:1\", \"n1:0\"]\n"
      "shares = [20, 12]\n[parameter_server]\nnodes = [\"n0\"]\n",
      "plan"));
  const auto here = [folder](const char* name) { return (folder / name).string(); };
  fs::create_directories(folder / "idx");
  for (const char* part : {"train", "t10k"}) {
    write_file(folder / "idx" / (part + std::string("-images-idx3-ubyte")), idx_bytes(true));
    write_file(folder / "idx" / (part + std::string("-labels-idx1-ubyte")), idx_bytes(false));
  }
  const auto read_idx = [here](const fs::path&) { read_splits(here("idx")); };
  write_file(folder / "tokens.bin", '\1' + std::string(159, '\0'));
  fs::create_directories(folder / "cifar");
  const std::string records =
      std::string(1, '\3') + std::string(3072, 'x') + std::string(1, '\1') + std::string(3072, 'y');
  for (const char* part : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    write_file(folder / "cifar" / (part + std::string(".bin")), records);
  }
  return {
      {"cluster", "cluster.toml", read_file(source / "cluster-configs/lab-drawer.toml"),
       [](const fs::path& file) { load_cluster(file); }},
      {"profile", "profile.toml", read_file(source / "tests/profiles/lenet.toml"),
       [](const fs::path& file) { read_profile(file, {}); }},
      {"plan", "plan.toml", plan, [](const fs::path& file) { load_plan(file); }},
      {"graph.txt", "graph.txt", read_file(source / "tests/fuzz/corpus/graph_txt/block"),
       [](const fs::path& file) {
         read_profile(file, {"v100", 32});
       }},
      {"options", "options.toml", configuration, read_configuration},
      {"checkpoint", "checkpoint.h5", checkpoint_bytes(folder / "checkpoint.h5"),
       [](const fs::path& file) { read_checkpoint(file); }},
      {"HDF5 data", "data.h5", hdf5_bytes(folder / "data.h5"),
       [here](const fs::path&) { read_splits(here("data.h5")); }},
      {"IDX images", "idx/train-images-idx3-ubyte", idx_bytes(true), read_idx},
      {"IDX labels", "idx/t10k-labels-idx1-ubyte", idx_bytes(false), read_idx},
      {"text", "text.txt", std::string(300, 'a') + std::string(300, 'b'),
       [here](const fs::path&) { read_splits("text:" + here("text.txt") + ",T=8"); }},
      {"CIFAR", "cifar/data_batch_2.bin", records,
       [here](const fs::path&) { read_images_of(open_cifar(here("cifar"), CifarLabels::ten)); }},
      {"JPEG", "image.jpg", jpeg_of(made_image(20, 30, 3)), read_image_of},
      {"PNG", "image.png", png_of(made_image(20, 30, 3)), read_image_of},
      {"shard", "train.tar", shard_bytes(), read_shards_of},
      {"shard with checksums", "train.tar", with_tar_checksums(shard_bytes()),
       read_shards_with_checksums},
      {"Megatron index", "tokens.idx", megatron_bytes(),
       [here](const fs::path&) { read_splits("tokens:" + here("tokens.bin") + ",T=3"); }},
  };
}

// In a process of its own: its exit code, or 128 + the signal that ended it.
int code_of(const Kind& kind, const fs::path& file) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::_Exit(99);
    ::alarm(60);
    try {
      kind.read(file);
    } catch (const UserError&) {
      std::_Exit(2);
    } catch (...) {
      std::_Exit(3);
    }
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(const fs::path& folder, const fs::path& source, int files, std::uint64_t seed,
        const std::string& only) {
  fs::create_directories(folder);
  ::setenv("HETPIPE_CACHE", "/proc/none", 1);  // what is found in damaged files is not kept
  int wrong = 0;
  for (const Kind& kind : kinds_of(folder, source)) {
    if (!only.empty() && kind.name != only) continue;
    const fs::path file = folder / kind.file;
    int refused = 0;
    write_file(file, kind.bytes);
    if (const int code = code_of(kind, file); code != 0) {
      std::printf("%s: an intact file ends with %d\n", kind.name.c_str(), code);
      ++wrong;
    }
    for (int i = 0; i < files; ++i) {
      Random random(seed * 1'000'003 + static_cast<std::uint64_t>(i));
      const std::string bytes = mutated(kind.bytes, random);
      // In place: hundreds of thousands of syncs and renames would take longer than the reading.
      std::FILE* out = std::fopen(file.c_str(), "w");
      if (out == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), out) != bytes.size() ||
          std::fclose(out) != 0) {
        std::perror(file.c_str());
        return 1;
      }
      const int code = code_of(kind, file);
      if (code == 2) ++refused;
      if (code == 0 || code == 2) continue;
      const fs::path kept = folder / format("wrong-%d-%s", i, file.filename().c_str());
      write_file(kept, bytes);
      std::printf("%s: file %d ends with %d: %s\n", kind.name.c_str(), i, code, kept.c_str());
      ++wrong;
    }
    write_file(file, kind.bytes);
    std::printf("%s: %d files, %d refused\n", kind.name.c_str(), files, refused);
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hetpipe

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mutated_files FOLDER SOURCE_DIR [FILES [SEED [KIND]]]\n");
    return 2;
  }
  const int files = argc > 3 ? std::atoi(argv[3]) : 2000;
  const std::uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  return hetpipe::run(argv[1], argv[2], files, seed, argc > 5 ? argv[5] : "");
}
