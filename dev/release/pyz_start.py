"""The beginning of andon.pyz: unpacks what is in it into a cache folder, and runs andon from there.

Modules that are compiled, scripts that are started by their path and processes that live longer
than the .pyz need real files. It is text for old versions of Python too, which it leaves for a
newer one, and imports little: it runs at every start.
"""

import errno
import os
import stat
import sys

DIGEST = ""  # of the list of files; dev/release/pyz.py fills it in
UNAVAILABLE = 3
OLDEST, NEWEST = 11, 20
DAY_SECONDS = 86400.0
SHARED = ("/var/tmp", "/tmp")
START = "start_andon.py"
MANIFEST = "manifest"


class Refused(Exception):
    """A folder in which nothing may be unpacked, or from which nothing may be run."""


def end(text, hint):
    sys.stderr.write("andon: %s\nhint: %s\n" % (text, hint))
    sys.exit(UNAVAILABLE)


def use_newer_python(archive):
    """Goes on with the newest Python on the PATH that is new enough, and starts."""
    import subprocess

    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for minor in range(NEWEST, OLDEST - 1, -1):
        for folder in folders:
            found = os.path.join(folder, "python3.%d" % minor)
            if not os.path.isabs(folder) or not os.access(found, os.X_OK):
                continue
            if subprocess.call([found, "-c", "pass"], stderr=subprocess.DEVNULL) == 0:
                os.execv(found, [found, archive] + sys.argv[1:])
    end(
        "andon needs Python 3.%d or newer, and this is %s" % (OLDEST, sys.version.split()[0]),
        "load a newer one, such as `module load python`, and then: python3 %s" % archive,
    )


def digest(content):
    import hashlib

    return hashlib.sha256(content).hexdigest()


def listed(manifest):
    """Returns the time that all files have, and digest and size of each by its name."""
    lines = manifest.decode("utf-8").splitlines()
    files = {}
    for line in lines[1:]:
        content, size, name = line.split(" ", 2)
        files[name] = (content, int(size))
    return int(lines[0]), files


def places():
    """Returns the folders in which it may be unpacked, the best one first."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    own = [os.path.join(cache, "andon-pyz")] if os.path.isabs(cache) else []
    shared = "andon-pyz-%d" % os.geteuid()
    return own + [os.path.join(folder, shared) for folder in SHARED]


def check_owner(folder):
    """Raises Refused unless a folder is this user's alone."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise Refused("is not a folder")
    if found.st_uid != os.geteuid():
        raise Refused("was made by another user (uid %d)" % found.st_uid)
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise Refused("is open to others (mode %o)" % stat.S_IMODE(found.st_mode))


def manifest_of(folder):
    """Returns the list of the files that are in a folder; None if it is not that of this .pyz."""
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as file:
            content = file.read()
    except (IOError, OSError):
        return None
    return content if digest(content) == DIGEST else None


def differing(folder, time, files):
    """Returns the files of a folder that are missing or were changed, and those that do not belong
    there. Contents were compared as they were written: now size, time and owner are. Digests of
    2,100 files would be 40 ms more (29 % of a start), in folders that nobody else can write."""
    missing, foreign, uid = dict(files), [], os.geteuid()
    folders = [""]
    while folders:
        at = folders.pop()
        for entry in os.scandir(os.path.join(folder, at)):
            name = at + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    folders.append(name + "/")
                continue
            found = entry.stat(follow_symlinks=False)
            if name not in files:
                foreign.append(name)
            elif stat.S_ISREG(found.st_mode) and (
                found.st_size,
                int(found.st_mtime),
                found.st_uid,
            ) == (files[name][1], time, uid):
                del missing[name]
    if MANIFEST in foreign:
        foreign.remove(MANIFEST)
    return missing, foreign


def is_whole(folder):
    """Whether a folder has all of this .pyz and nothing else, and is this user's alone."""
    try:
        check_owner(os.path.dirname(folder))
        check_owner(folder)
        manifest = manifest_of(folder)
        return manifest is not None and differing(folder, *listed(manifest)) == ({}, [])
    except OSError:
        return False


def made(place):
    """Makes the folder of all versions; raises if it cannot be used."""
    try:
        os.makedirs(os.path.dirname(place), 0o700)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    try:
        os.mkdir(place, 0o700)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    check_owner(place)
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise Refused("is on a file system without programs (noexec)")


def unpack(archive, folder):
    """Unpacks into a folder of another name and renames it. What is there already is mended file by
    file, because processes may be running from it."""
    import shutil
    import tempfile

    place = os.path.dirname(folder)
    forget_abandoned(place)
    draft = tempfile.mkdtemp(prefix=".new-", dir=place)
    try:
        if not os.path.lexists(folder):
            write(archive, draft, None)
            try:
                os.rename(draft, folder)
                return
            except OSError as error:  # another start was quicker
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        check_owner(folder)
        if not is_whole(folder):
            mend(archive, draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write(archive, draft, wanted):
    """Writes the files with these names, or all of them, and compares each with its digest."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(archive) as outer:
            manifest = outer.read(MANIFEST)
            with outer.open("files.zip") as inner, zipfile.ZipFile(inner) as packed:
                time, files = listed(manifest)
                for name in files if wanted is None else wanted:
                    data = packed.read(name)
                    if digest(data) != files[name][0]:
                        raise ValueError(name)
                    write_file(os.path.join(draft, name), data, time)
        if digest(manifest) != DIGEST:
            raise ValueError(MANIFEST)
    except (
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as wrong:
        raise Refused("cannot be filled: %s is damaged (%s)" % (archive, wrong)) from wrong
    write_file(os.path.join(draft, MANIFEST), manifest, time)


def write_file(path, data, time):
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.utime(path, (time, time))


def mend(archive, draft, folder):
    """Replaces the files that were changed, and removes those that do not belong there."""
    import zipfile

    with zipfile.ZipFile(archive) as outer:
        time, files = listed(outer.read(MANIFEST))
    missing, foreign = differing(folder, time, files)
    write(archive, draft, missing)
    for name in list(missing) + [MANIFEST]:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        os.replace(os.path.join(draft, name), target)
    for name in foreign:
        os.unlink(os.path.join(folder, name))


def forget_abandoned(place):
    """Removes what a start that was killed left a day ago."""
    import shutil
    import time

    for name in os.listdir(place):
        path = os.path.join(place, name)
        if name.startswith(".new-") and time.time() - os.lstat(path).st_mtime > DAY_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def unpacked(archive):
    """Returns the folder with what is in this .pyz; makes it where it can."""
    folders = [os.path.join(place, DIGEST[:16]) for place in places()]
    wrong = []
    for folder in folders:
        try:
            if is_whole(folder):
                return folder
        except Refused:
            pass  # said below, if nothing else is found
    for folder in folders:
        try:
            made(os.path.dirname(folder))
            unpack(archive, folder)
            for text in wrong:
                sys.stderr.write("andon: not unpacked there: %s\n" % text)
            return folder
        except Refused as refused:
            wrong.append("%s %s" % (os.path.dirname(folder), refused))
        except OSError as error:
            wrong.append("%s: %s" % (os.path.dirname(folder), error.strerror))
    end(
        "andon.pyz cannot unpack itself\n  " + "\n  ".join(wrong),
        "name a folder with 30 MB: XDG_CACHE_HOME=/scratch/$USER %s" % archive,
    )


def check_platform(archive, files):
    """Ends unless the compiled modules for this Python are in this .pyz."""
    from importlib.machinery import EXTENSION_SUFFIXES

    core = "msgspec/_core"
    if any(core + one in files for one in EXTENSION_SUFFIXES):
        return
    has = sorted(one[len(core) + 1 : -3] for one in files if one.startswith(core + ".c"))
    end(
        "andon.pyz is not for this Python (%s); it is for:\n  %s"
        % (EXTENSION_SUFFIXES[0][1:-3], "\n  ".join(has)),
        "use one of these, or install andon with pip",
    )


def main():
    archive = os.path.abspath(sys.argv[0])
    if sys.version_info < (3, OLDEST):
        use_newer_python(archive)
    if not sys.executable:
        end("the path of this Python is unknown", "start it as: python3 %s" % archive)
    folder = unpacked(archive)
    with open(os.path.join(folder, MANIFEST), "rb") as file:
        check_platform(archive, listed(file.read())[1])
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, os.path.join(folder, START)] + sys.argv[1:])


if __name__ == "__main__":
    main()
