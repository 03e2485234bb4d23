use tempfile::TempDir;

use super::*;

const OLD: &str = "0123456789abcdef-old";
const NEW: &str = "0123456789abcdef-new";

fn ids(of: &[&str]) -> Vec<KeyId> {
    of.iter().map(|s| Secret::new(s.as_bytes()).id()).collect()
}

#[test]
fn file_has_one_key_per_line_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    std::fs::write(&file, format!("{NEW}\n\n  {OLD}\r\n{NEW}\n")).unwrap();
    assert_eq!(KeyRing::read(&file).unwrap().ids(), ids(&[NEW, OLD]));
}

#[test]
fn last_file_name_in_folder_is_newest() {
    let folder = tempfile::tempdir().unwrap();
    // As a Secret is mounted: a hidden folder with the files, and links to them.
    let data = folder.path().join("..data");
    std::fs::create_dir(&data).unwrap();
    for (name, secret) in [("2026-01", OLD), ("2026-02", NEW)] {
        std::fs::write(data.join(name), secret).unwrap();
        std::os::unix::fs::symlink(data.join(name), folder.path().join(name)).unwrap();
    }
    assert_eq!(
        KeyRing::read(folder.path()).unwrap().ids(),
        ids(&[NEW, OLD])
    );
}

#[test]
fn error_does_not_show_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    let read = || KeyRing::read(&file).unwrap_err();
    assert!(matches!(read(), KeysError::Unreadable { .. }));
    std::fs::write(&file, "\n").unwrap();
    assert!(matches!(read(), KeysError::Empty { .. }));
    std::fs::write(&file, format!("{NEW}\ntooshort\n")).unwrap();
    let error = read();
    assert!(matches!(
        error,
        KeysError::Short {
            line: 2,
            length: 8,
            ..
        }
    ));
    assert!(!format!("{error} {error:?}").contains("tooshort"));
    let many: Vec<String> = (0..9).map(|i| format!("{NEW}-{i}\n")).collect();
    std::fs::write(&file, many.concat()).unwrap();
    assert!(matches!(read(), KeysError::TooMany { count: 9, .. }));
    std::fs::write(&file, vec![b'a'; 100_000]).unwrap();
    assert!(matches!(read(), KeysError::TooLarge { .. }));
}

#[test]
fn debug_does_not_show_key() {
    let ring = KeyRing::new([Secret::new(NEW.as_bytes())]);
    assert!(!format!("{ring:?}").contains("0123456789"));
}

#[test]
fn only_signing_key_verifies() {
    let (old, new) = (Secret::new(OLD.as_bytes()), Secret::new(NEW.as_bytes()));
    let tag = new.sign(b"message");
    assert!(new.verifies(b"message", &tag));
    assert!(!old.verifies(b"message", &tag));
    assert!(!new.verifies(b"massage", &tag));
    let mut other = tag;
    other[15] ^= 1;
    assert!(!new.verifies(b"message", &other));
}

/// RFC 4231, test case 2, cut to 16 bytes.
#[test]
fn tag_is_hmac_sha_256() {
    let tag = Secret::new(b"Jefe").sign(b"what do ya want for nothing?");
    assert_eq!(
        tag,
        [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7
        ]
    );
}

#[test]
fn signs_with_new_key_once_all_have_it() {
    let ring = KeyRing::new([NEW, OLD].map(|s| Secret::new(s.as_bytes())));
    let signing = |others: &[&[&str]]| {
        let others: Vec<_> = others.iter().map(|other| ids(other)).collect();
        let chosen = ring.signing(others.iter().map(Vec::as_slice));
        chosen.unwrap().id()
    };
    let (old, new) = (ids(&[OLD])[0], ids(&[NEW])[0]);
    assert_eq!(signing(&[]), new, "nobody else is there");
    assert_eq!(signing(&[&[OLD], &[NEW, OLD]]), old);
    assert_eq!(signing(&[&[NEW, OLD], &[NEW, OLD]]), new);
    assert_eq!(signing(&[&[NEW], &[NEW, OLD]]), new);
    assert_eq!(signing(&[&["another, of another cluster"]]), new);
    assert_eq!(KeyRing::default().signing([]), None);
}

/// A file with these secrets, in a folder that goes with it, and what it is followed into.
fn followed(secrets: &str) -> (TempDir, PathBuf, Arc<ArcSwap<KeyRing>>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    std::fs::write(&file, secrets).unwrap();
    let ring = Arc::new(ArcSwap::from_pointee(KeyRing::read(&file).unwrap()));
    tokio::spawn(follow(file.clone(), Arc::clone(&ring)));
    (folder, file, ring)
}

#[tokio::test(start_paused = true)]
async fn rereads_changed_file_unless_broken() {
    let (_folder, file, ring) = followed(OLD);
    let becomes = async |expected: Vec<KeyId>| {
        for _ in 0..1000 {
            if ring.load().ids() == expected {
                return true;
            }
            tokio::time::sleep(POLL).await;
        }
        false
    };
    std::fs::write(&file, "short").unwrap();
    std::fs::write(&file, format!("{NEW}\n{OLD}")).unwrap();
    assert!(becomes(ids(&[NEW, OLD])).await);
    std::fs::write(&file, "short").unwrap();
    assert!(!becomes(Vec::new()).await);
    assert_eq!(ring.load().ids(), ids(&[NEW, OLD]));
}

/// On a new installation nothing is wrong: central makes the Secret, and the kubelet shows it some time later.
#[test]
fn first_keys_are_awaited_in_silence_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (none, held) = (
        KeyRing::default(),
        KeyRing::new([Secret::new(OLD.as_bytes())]),
    );
    let file = folder.path().join("secrets");
    let not_there = KeyRing::read(&file).unwrap_err();
    let empty = KeyRing::read(folder.path()).unwrap_err();
    std::fs::write(&file, "short").unwrap();
    let short = KeyRing::read(&file).unwrap_err();
    for error in [not_there, empty] {
        assert_eq!(complaint(&error, &none, FIRST_AWAITED - POLL), None);
        assert!(complaint(&error, &none, FIRST_AWAITED).is_some_and(|said| said.contains("still")));
        assert!(complaint(&error, &held, POLL).is_some_and(|said| said.contains("stay")));
    }
    assert!(complaint(&short, &none, POLL).is_some());
}

/// The Secret was deleted and made again: daemons see that one after the other, and must hear each
/// other meanwhile.
#[tokio::test(start_paused = true)]
async fn accepts_replaced_keys_for_a_while() {
    let (_folder, file, ring) = followed(OLD);
    let becomes = async |expected: Vec<KeyId>| {
        let start = Instant::now();
        while ring.load().ids() != expected {
            assert!(start.elapsed() < REPLACED_COUNT * 2, "{:?}", ring.load());
            tokio::time::sleep(POLL).await;
        }
        start.elapsed()
    };
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, NEW).unwrap();
    becomes(ids(&[NEW, OLD])).await;
    let others = [ids(&[OLD]), ids(&[NEW, OLD])];
    let signing = |others: &[Vec<KeyId>]| {
        let ring = ring.load();
        let chosen = ring.signing(others.iter().map(Vec::as_slice));
        chosen.map(Secret::id)
    };
    assert_eq!(
        signing(&others),
        Some(ids(&[OLD])[0]),
        "one has the old one alone"
    );
    assert_eq!(signing(&others[1..]), Some(ids(&[NEW])[0]));
    let kept = becomes(ids(&[NEW])).await;
    assert!(kept + POLL * 2 >= REPLACED_COUNT, "{kept:?}");
}

/// To take one of two away is a person's decision, and holds at once.
#[tokio::test(start_paused = true)]
async fn rejects_removed_key() {
    let (_folder, file, ring) = followed(&format!("{NEW}\n{OLD}"));
    std::fs::write(&file, NEW).unwrap();
    let start = Instant::now();
    while ring.load().ids() != ids(&[NEW]) {
        assert!(start.elapsed() < REPLACED_COUNT / 2, "{:?}", ring.load());
        tokio::time::sleep(POLL).await;
    }
}
