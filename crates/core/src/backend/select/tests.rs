use super::*;

const CONFIG: &str = "
rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}
";

#[test]
fn without_a_gpu_auto_takes_the_cpu_and_cuda_says_why() {
    let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
    let layout = Layout::new(&config);
    let cuda = create(Choice::Cuda, 0, &config, &layout);
    let auto = create(Choice::Auto, 0, &config, &layout).unwrap();
    match cuda {
        Ok(backend) => assert_eq!((backend.name(), auto.name()), ("cuda", "cpu+cuda")),
        Err(error) => {
            assert!(error.to_string().starts_with("backend cuda: "), "{error}");
            assert_eq!(auto.name(), "cpu");
        }
    }
    assert_eq!(create(Choice::Cpu, 0, &config, &layout).unwrap().name(), "cpu");
}

#[test]
fn auto_warns_only_if_the_machine_has_a_driver() {
    let unavailable =
        |detail: &str| BackendError::Unavailable { backend: "cuda", detail: detail.into() };
    let refused = unavailable("the driver is too old: expected one for CUDA 13.x or later");
    assert_eq!(is_expected(&refused), cfg!(not(feature = "cuda")));
    // The error on this machine, if it has no driver.
    let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
    let Err(error) = create(Choice::Cuda, 0, &config, &Layout::new(&config)) else { return };
    let absent = error.to_string().contains("libcuda.so.1");
    assert_eq!(is_expected(&error), absent || cfg!(not(feature = "cuda")), "{error}");
}

#[test]
fn all_devices_are_one_for_the_cpu_and_at_least_one_for_auto() {
    assert_eq!(devices(Choice::Cpu).unwrap(), [0]);
    let auto = devices(Choice::Auto).unwrap();
    match devices(Choice::Cuda) {
        Ok(all) => assert_eq!(all, auto),
        Err(error) => {
            assert!(error.to_string().starts_with("backend cuda: "), "{error}");
            assert_eq!(auto, [0]);
        }
    }
}

#[test]
fn every_choice_has_a_name() {
    let choices = ["auto", "cpu", "cuda"].map(|name| name.parse::<Choice>().unwrap());
    assert_eq!(choices, [Choice::Auto, Choice::Cpu, Choice::Cuda]);
    let error = "gpu".parse::<Choice>().unwrap_err();
    assert_eq!(error, "expected auto, cpu or cuda, found 'gpu'");
}
