//! Saving and loading of the result file.

use std::fs;
use std::path::Path;

use super::model::{FORMAT, ResultFile};
use super::summary;

/// Writes `result` to `path` atomically.
pub fn save(result: &ResultFile, path: &Path) -> Result<(), String> {
    let text = serde_json::to_vec(result).map_err(|e| e.to_string())?;
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let with_path = |e| format!("{}: {e}", path.display());
    fs::write(&unfinished, text).map_err(with_path)?;
    fs::rename(&unfinished, path).map_err(with_path)
}

/// Reads the result file at `path`, and summarises its rounds again: an older program may have
/// summarised them differently.
pub fn load(path: &Path) -> Result<ResultFile, String> {
    let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut result: ResultFile =
        serde_json::from_slice(&text).map_err(|e| format!("{}: not a result file: {e}", path.display()))?;
    if result.format != FORMAT {
        return Err(format!("{}: format {}, expected {FORMAT}", path.display(), result.format));
    }
    result.summary = summary::summarise(&result);
    Ok(result)
}

impl ResultFile {
    /// Returns whether any phase failed.
    pub fn has_failures(&self) -> bool {
        self.results.iter().any(|result| !result.error.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_load_round_trip() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let path = dir.path().join("r.json");
        let result = ResultFile { format: FORMAT, suite: "go".into(), scale: 0.1, ..ResultFile::default() };
        save(&result, &path).expect("the directory is writable");
        assert_eq!(load(&path), Ok(result));
        assert_eq!(fs::read_dir(dir.path()).expect("the directory exists").count(), 1);
    }

    #[test]
    fn invalid_files_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        for (text, expect) in
            [("{", "not a result file: "), ("{}", "format 0, expected 1"), ("", "not a result file: ")]
        {
            let path = dir.path().join("r.json");
            fs::write(&path, text).expect("the directory is writable");
            let error = load(&path).expect_err("the file is invalid");
            assert!(error.contains(expect), "{error}");
        }
    }
}
