/* Directories, made and removed without a shell: some specs make hundreds. See testkit.h. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testkit.h"

/* make_directory(path): with its parents; true, or nil, a message and errno's number */
static int kit_make_directory(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    const size_t len = strlen(path);
    char part[PATH_MAX];

    luaL_argcheck(L, len > 0 && len < sizeof part, 1, "a path");
    for (size_t i = 1; i <= len; i++) {
        part[i - 1] = path[i - 1];
        part[i] = '\0';
        if ((path[i] == '/' || path[i] == '\0') && mkdir(part, 0777) != 0 && errno != EEXIST)
            return tk_refused(L, part, errno);
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* Links are not followed. Directories that their owner may not read or write are removed too. */
static int remove_directory(const char *path)
{
    DIR *dir;
    struct dirent *e;

    chmod(path, 0700);
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char entry[PATH_MAX];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            snprintf(entry, sizeof entry, "%s/%s", path, e->d_name) >= (int)sizeof entry)
            continue;
        if (unlink(entry) != 0 && errno == EISDIR)
            remove_directory(entry);
    }
    if (dir != NULL)
        closedir(dir);
    return rmdir(path);
}

/* remove_directory(path): with all its content; true, or nil, a message and errno's number */
static int kit_remove_directory(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);

    if (remove_directory(path) != 0)
        return tk_refused(L, path, errno);
    lua_pushboolean(L, 1);
    return 1;
}

void tk_open_files(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "make_directory", kit_make_directory },
        { "remove_directory", kit_remove_directory },
        { NULL, NULL },
    };

    tk_register(L, functions);
}
