//! Topics of images as streams.

use super::{Kind, quoted};
use crate::inspect::{CameraForm, ContentReport, ImageForm, ImageForms, Inspection, TopicReport};
use robocache_core::codec::PixelFormat;
use robocache_core::input;

/// The size of a row \[px\], which most policies take.
const ROW_PX: usize = 224;

/// The lines of a stream that are for images.
///
/// # Errors
/// Why the images cannot be read.
pub(super) fn lines(
    found: &Inspection,
    topic: &TopicReport,
    images: &ImageForms,
) -> Result<(Kind, Vec<String>), String> {
    let form = images.usual().ok_or("there is no image that could be read")?;
    let holds = if topic.ros_type == "sensor_msgs/msg/Image" {
        raw(form, &topic.name)
    } else {
        file(form)
    }?;
    let mut lines = vec!["image:".to_owned()];
    let width = form.width;
    let height = form.height;
    let size = format!("resize: {{width: {ROW_PX}, height: {ROW_PX}}}");
    lines.push(format!("  {size} # of {} {width}x{height}", printable(&form.encoding)));
    let widest = images.forms.iter().map(|form| form.width).max().unwrap_or(width);
    let highest = images.forms.iter().map(|form| form.height).max().unwrap_or(height);
    if widest > 0 && highest > 0 {
        lines.push(format!("  max_width_px: {widest}"));
        lines.push(format!("  max_height_px: {highest}"));
    }
    match holds {
        Holds::Color => {}
        Holds::Gray => lines.push("  color: mono".into()),
        Holds::Untyped(meaning) => {
            lines.push(
                "  # The encoding does not say what its channels are. This is a guess:".into(),
            );
            lines.push(format!("  encoding_8uc: {meaning}"));
            if meaning == "mono8" {
                lines.push("  color: mono".into());
            }
        }
        Holds::Depth => lines.push("  depth: {max_m: 10}".into()),
    }
    if images.forms.len() > 1 {
        let others: Vec<String> =
            images.forms.iter().map(|form| printable(&form.encoding)).collect();
        lines.push(format!("  # Images have several forms: {}", others.join("; ")));
    }
    if let Some((info, camera)) =
        camera(found, &topic.name).filter(|(_, camera)| camera.is_distorted)
        && !matches!(holds, Holds::Depth)
    {
        let model = printable(&camera.model);
        lines.push(format!("  # The lens bends ({model}). To undistort the images first:"));
        lines.push(format!("  # undistort: {{camera_info: {}}}", quoted(info)));
    }
    Ok((Kind::Image, lines))
}

#[derive(Clone, Copy)]
enum Holds {
    Color,
    Gray,
    /// `8UC1` and the like, with what it probably means.
    Untyped(&'static str),
    Depth,
}

fn raw(form: &ImageForm, topic: &str) -> Result<Holds, String> {
    let is_depth = topic.contains("depth");
    Ok(match form.encoding.as_str() {
        "16UC1" | "32FC1" => Holds::Depth,
        "mono16" if is_depth => Holds::Depth,
        "mono8" | "mono16" => Holds::Gray,
        "8UC1" => Holds::Untyped("mono8"),
        "8UC3" => Holds::Untyped("bgr8"),
        "8UC4" => Holds::Untyped("bgra8"),
        name if PixelFormat::of(name.as_bytes()).is_some() => Holds::Color,
        other => return Err(format!("the encoding {} is not read", printable(other))),
    })
}

fn file(form: &ImageForm) -> Result<Holds, String> {
    let format = form.encoding.as_str();
    let pixels = format.split(';').next().unwrap_or_default().trim();
    if format.contains("compressedDepth") || (form.is_png && ["16UC1", "32FC1"].contains(&pixels)) {
        return Ok(Holds::Depth);
    }
    if form.width == 0 {
        return Err(format!(
            "files of the format '{}' are neither JPEG nor PNG",
            printable(format)
        ));
    }
    if !input::is_compressed_picture(format.as_bytes(), form.is_png) {
        return Err(format!("the encoding '{}' is no picture", printable(pixels)));
    }
    Ok(if pixels.starts_with("mono") { Holds::Gray } else { Holds::Color })
}

/// The CameraInfo beside a topic of images.
fn camera<'a>(found: &'a Inspection, topic: &str) -> Option<(&'a str, &'a CameraForm)> {
    // compressed_image_transport appends a name to that of the images.
    let mut folder = topic;
    for _ in 0..2 {
        folder = folder.rsplit_once('/')?.0;
        let info = found.topic(&format!("{folder}/camera_info"));
        if let Some((name, Some(ContentReport::Camera(camera)))) =
            info.map(|info| (info.name.as_str(), &info.content))
        {
            return Some((name, camera));
        }
    }
    None
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}
